"""What programs print is text on the terminal of whoever looks at it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.report.printable import printable


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("step 1 loss 0.5", "step 1 loss 0.5"),
        ("größe 模型 ✓", "größe 模型 ✓"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x9b31mred", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended", "\\x1b]0;never ended"),
        ("\x1b(B\x1b=text", "text"),
        ("a\tb", "a       b"),
        ("bell\x07 back\x08", "bell\\x07 back\\x08"),
        ("turned \u202eround", "turned \\u202eround"),
        ("line\u2028end", "line\\u2028end"),
        ("family 👨\u200d👩", "family 👨\u200d👩"),
        ("no\u00a0break", "no\u00a0break"),
    ],
)
def test_sequences_vanish_and_other_controls_are_written_out(printed: str, shown: str) -> None:
    assert printable(printed) == shown


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[]0;m\x07\x9b\\"))))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    left = {unicodedata.category(character) for character in printable(text)} - {"Cf"}
    assert not left & {"Cc", "Cs", "Zl", "Zp"}
