"""Files of variables: what is accepted, and errors that name the line and never a value."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.errors import BadInput
from mooring.spec.env_file import load_env_file, parse_env


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nB=two words\n", {"A": "1", "B": "two words"}),
        ("# comment\n\n  # another\nA=1 # why\n", {"A": "1"}),
        ("export A=1\n  export  B = 2 \n", {"A": "1", "B": "2"}),
        ("A=\nB=''\n", {"A": "", "B": ""}),
        ("A='$HOME # as is\\n'\n", {"A": "$HOME # as is\\n"}),
        ('A="a\\n\\"b\\" \\$c # d" # e\n', {"A": 'a\n"b" $c # d'}),
        ("A=x#y\nB=#\n", {"A": "x#y", "B": ""}),
        ("A=b=c\n", {"A": "b=c"}),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        (
            'KEY="-----BEGIN\nline two\n-----END"\nB=1',
            {"KEY": "-----BEGIN\nline two\n-----END", "B": "1"},
        ),
        ("A=1\nA=2", {"A": "2"}),
        ("", {}),
    ],
)
def test_what_is_accepted(text: str, expected: dict[str, str]) -> None:
    assert parse_env(text, "x.env") == expected


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("A=1\nhunter2\n", 2, "KEY=VALUE"),
        ("\n\nA='hunter2\nB=1\n", 3, "never closed"),
        ("A='hunter2' hunter2\n", 1, "after the closing quote"),
        ("1A=hunter2\n", 1, "digits"),
        ("hunter2-x=1\n", 1, "digits"),
        ("MOORING_RANK=hunter2\n", 1, "MOORING_"),
        ("A=hunter2\0\n", 1, "NUL"),
    ],
)
def test_errors_name_the_line_and_never_a_value(text: str, line: int, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_env(text, "x.env")
    [problem] = caught.value.problems
    assert problem.line == line
    assert said in str(problem)
    assert "hunter2" not in str(caught.value)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        parse_env("one\nA=1\ntwo\n", "x.env")
    assert [problem.line for problem in caught.value.problems] == [1, 3]


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"gone\.env.*KEY=VALUE lines"):
        load_env_file(tmp_path / "gone.env")
    (tmp_path / "x.env").write_bytes(b"\xef\xbb\xbfA=1\n")
    assert load_env_file(tmp_path / "x.env") == {"A": "1"}


_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not name.startswith("MOORING_")
)
_VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=30)


@given(st.dictionaries(_NAMES, _VALUES, max_size=5))
def test_what_is_quoted_comes_back(variables: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'

    text = "\n".join(f"export {name}={quoted(value)}" for name, value in variables.items())
    assert parse_env(text, "x") == variables


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        variables = parse_env(text, "x")
    except BadInput as error:
        assert all(problem.line for problem in error.problems)
    else:
        assert all("\0" not in value for value in variables.values())
