"""Text from outside, as text: nothing of it moves a terminal's cursor or changes its colours.

Colours, and the movements by which progress bars draw over themselves, mean nothing in a list of
lines and are left out. Every other control character is written out (`\\x1b]0;title\\x07`): what a
program printed is seen, and not obeyed.
"""

from __future__ import annotations

import re
import unicodedata

_CSI = r"(?:\x1b\[|\x9b)"
_LEFT_OUT = re.compile(
    rf"{_CSI}[0-9;:]{{0,60}}m"  # colours
    rf"|{_CSI}[0-9]{{0,4}}[A-DGK]"  # a bar: up, down, right, left, to a column, the line's rest
    rf"|{_CSI}\?25[hl]"  # the cursor while a bar is drawn
    r"|\x1b\(B"  # back to ASCII, which goes with colours
    r"|\x08{2,}"  # a bar goes back to its beginning
)
_TAB = 8
#: Invisible, but parts of words and of emoji.
_JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    """One line without colours; control characters are written out, line ends among them."""
    if text.isprintable():
        return text
    text = _LEFT_OUT.sub("", text).expandtabs(_TAB)
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def printable_lines(text: str) -> str:
    """The same for a text of several lines: `\\n` ends one, and is all that is obeyed."""
    if text.isprintable():
        return text
    return "\n".join(map(printable, text.split("\n")))


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    # Controls, formats (among them those that reverse the direction), lone surrogates, line ends.
    if category not in ("Cc", "Cf", "Cs", "Zl", "Zp") or character in _JOINERS:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
