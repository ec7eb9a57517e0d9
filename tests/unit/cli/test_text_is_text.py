"""No command gives a terminal what somebody else wrote: markup and control characters are text."""

from __future__ import annotations

import ast
import io
import json
import logging
import sys
from pathlib import Path

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import mooring.cli
from mooring.cli.console import console, plain_console, recorded
from mooring.cli.say import emit_json, say, say_prefixed
from mooring.operator.logs import _Text

HOSTILE = [
    "[/red]",
    "[bold]loud[/bold]",
    "[link=file:///etc/passwd]here[/link]",
    ":smiley:",
    "\x1b[2Jcleared",
    "\x1b]0;title\x07",
    "\x9b31mred",
    "bell\x07\x08\x0b\x0c\r",
    "\x1b]8;;http://x\x1b\\link",
    "lone \udc1b surrogate",
]


def obeyed(text: str) -> set[str]:
    return {each for each in text if (each < " " and each != "\n") or "\x7f" <= each < "\xa0"}


@pytest.mark.parametrize("text", HOSTILE)
def test_say(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(f"found {text}")
    say_prefixed("worker-0 |", text)
    out = capsys.readouterr().out
    assert not obeyed(out) and out.count("\n") == 2
    if text[0] in "[:":
        assert out.count(text) == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_consoles(text: str) -> None:
    table = Table("name", title=text, caption=text)
    table.add_row(text)
    table.add_row(Text(text, style="red"))
    for made in (console(io.StringIO()), plain_console()):
        made.file = io.StringIO()
        made.print(text, style="bold")
        made.print(table, Panel(table, title=Text(text)))
        said = made.file.getvalue()
        assert not obeyed(said)
        if text[0] in "[:":
            assert text in said
    assert not obeyed(recorded(text, table))


def test_our_own_colours_stay() -> None:
    made = console(io.StringIO())
    made._color_system, made._force_terminal = 1, True  # type: ignore[assignment]
    made.print("x \x1b[31m", style="red")
    assert made.file.getvalue().startswith("\x1b[31mx ")  # type: ignore[attr-defined]


def test_numbers_that_json_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": ("\x9b\x7f",)})
    out = capsys.readouterr().out
    assert json.loads(out) == {"a": None, "b": [None, 1.5], "c": ["\x9b\x7f"]}
    assert "\x9b" not in out and "NaN" not in out


def test_no_command_prints_another_way() -> None:
    """The mechanism holds as long as nobody goes around it."""
    around = []
    for path in Path(mooring.cli.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in ("click.echo", "click.secho", "print", "Console", "Text.from_markup"):
                    around.append((path.name, called))
    assert {name for name, _ in around} == {"say.py"}
    assert len(around) <= 4


@pytest.mark.parametrize("text", HOSTILE)
def test_the_operators_log_is_one_line_a_record(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        trace = sys.exc_info()
    for exc_info in (None, trace):
        record = logging.LogRecord("m", logging.INFO, "f", 1, "a\n%s", (text,), exc_info)
        said = _Text().format(record)
        assert not obeyed(said)
        assert ("\n" in said) == (exc_info is not None)
