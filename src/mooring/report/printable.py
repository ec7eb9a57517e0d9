"""What programs print, as text: nothing of it moves a terminal's cursor or changes its colours."""

from __future__ import annotations

import re
import unicodedata

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor, erasing
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-Z\\^-~]"  # character sets, modes
)
_TAB = 8
#: Invisible, but parts of words and of emoji.
_JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    """The text without terminal sequences; other control characters are written out (`\\x07`)."""
    if text.isprintable():
        return text
    text = _SEQUENCES.sub("", text).expandtabs(_TAB)
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    # Controls, formats (among them those that reverse the direction), lone surrogates, line ends.
    if category not in ("Cc", "Cf", "Cs", "Zl", "Zp") or character in _JOINERS:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
