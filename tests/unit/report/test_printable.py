"""What programs print is text on the terminal of whoever looks at it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.report.printable import printable, printable_lines


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("step 1 loss 0.5", "step 1 loss 0.5"),
        ("größe 模型 ✓", "größe 模型 ✓"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hgone", "\\x1b[2J\\x1b[Hgone"),
        ("\x9b31mred", "red"),
        ("\x1b]0;a title\x07text", "\\x1b]0;a title\\x07text"),
        ("\x1b]8;;http://x\x1b\\link", "\\x1b]8;;http://x\\x1b\\link"),
        ("\x1b]0;never ended", "\\x1b]0;never ended"),
        ("\x1b[6n\x1bc", "\\x1b[6n\\x1bc"),  # a question to the terminal, and its reset
        ("\x1b[1m\x1b(Btext", "text"),
        # Progress bars, as the launcher's log has their lines: tqdm's, two of them, Keras'.
        (" 42%|####      | 42/100 [00:01]", " 42%|####      | 42/100 [00:01]"),
        ("\x1b[A\x1b[K 43%|####", " 43%|####"),
        ("\x08" * 60 + "3/5 \x1b[32m━━\x1b[0m loss: 0.5", "3/5 ━━ loss: 0.5"),
        ("a\tb", "a       b"),
        ("bell\x07 back\x08", "bell\\x07 back\\x08"),
        ("turned \u202eround", "turned \\u202eround"),
        ("line\u2028end", "line\\u2028end"),
        ("family 👨\u200d👩", "family 👨\u200d👩"),
        ("no\u00a0break", "no\u00a0break"),
    ],
)
def test_colours_and_bars_are_left_out_and_the_rest_written_out(printed: str, shown: str) -> None:
    assert printable(printed) == shown


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[]0;m\x07\x9b\\"))))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    left = {unicodedata.category(character) for character in printable(text)} - {"Cf"}
    assert not left & {"Cc", "Cs", "Zl", "Zp"}


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[]0;m\x07\n\r"))))
def test_of_many_lines_only_their_ends_are_left(text: str) -> None:
    shown = printable_lines(text)
    assert shown.count("\n") == text.count("\n")
    assert not {"Cc", "Cs"} & {unicodedata.category(each) for each in shown if each != "\n"}
