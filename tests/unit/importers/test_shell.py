"""Commands whose parts only the running member knows, run by a real shell."""

from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.importers.shell import (
    Expression,
    Word,
    command,
    expand_references,
    peer,
    variable,
)

ENV = {
    "PATH": "/usr/bin:/bin",
    "RANK": "3",
    "MOORING_PEERS": json.dumps(
        {"worker": ["10.0.0.1:7001", "10.0.0.2:7002"], "my-worker": ["demo-w-0:9"], "bare": ["h"]},
        separators=(",", ":"),
    ),
}
#: A program that prints each of its arguments, ended by NUL.
SHOW: tuple[Word, ...] = (("printf",), ("%s\\0",))


def shown(argv: list[str]) -> list[str]:
    output = subprocess.run(argv, env=ENV, capture_output=True, check=True, timeout=10).stdout
    return output.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (variable("RANK"), "3"),
        (peer("worker", 0), "10.0.0.1"),
        (peer("worker", 1, "port"), "7002"),
        (peer("worker", 1, "address"), "10.0.0.2:7002"),
        (peer("my-worker", 0), "demo-w-0"),
        (peer("bare", 0), "h"),
    ],
)
def test_the_shell_works_it_out(expression: Expression, value: str) -> None:
    assert shown(command([*SHOW, ("a=", expression)], {})) == [f"a={value}"]
    script: Word = ("printf '%s\\0' \"a=", expression, '"')
    assert shown(command([("sh",), ("-c",), script], {})) == [f"a={value}"]
    exports: dict[str, Word] = {"A": ("it's ", expression)}
    assert shown(command([("sh",), ("-c",), ('printf "%s\\0" "$A"',)], exports)) == [
        f"it's {value}"
    ]


def test_a_command_without_such_parts_stays_as_it_is() -> None:
    assert command([("python",), ("a b",), ()], {}) == ["python", "a b", ""]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
        max_size=3,
    )
)
def test_no_text_is_changed_by_the_shell(texts: list[str]) -> None:
    argv: list[Word] = [*SHOW, *((text,) for text in texts), (variable("RANK"),)]
    assert shown(command(argv, {})) == [*texts, "3"]
    plain: list[Word] = [*SHOW, ("x",), *((text,) for text in texts)]
    assert shown(command(plain, {"A": ("b",)})) == ["x", *texts]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", ("1",)),
        ("x$(A)y$(A)", ("x1y1",)),
        ("$(UNKNOWN)", ("$(UNKNOWN)",)),
        ("$$(A)", ("$(A)",)),
        ("$$$(A)", ("$1",)),
        ("$A ${A} $(A B)", ("$A ${A} $(A B)",)),
        ("", ()),
    ],
)
def test_references_are_read_as_the_kubelet_does(text: str, expanded: Word) -> None:
    assert expand_references(text, {"A": ("1",)}) == expanded
