"""Lines for people and data for programs, on standard output and standard error.

Names, messages and lines come from programs, users and clusters: control characters in them are
shown, not obeyed. `say` sees to that here, and `console` for tables and colours, so that no command
has to. `emit` is for data that other programs read, whose format has its own way to write them.
"""

from __future__ import annotations

import click

from mooring.model.strict_json import json_text
from mooring.report.printable import printable, printable_lines


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print lines for people."""
    click.echo(printable_lines(str(text)), err=err, nl=nl)


def say_prefixed(prefix: str, text: str, *, raw: bool = False) -> None:
    """One line of a program behind a prefix with colours of our own; raw: as it was printed."""
    if raw:
        click.echo(f"{prefix} ", nl=False)
        emit(text)
    else:
        click.echo(f"{prefix} {printable(text)}")


def emit(text: str, *, nl: bool = True) -> None:
    """Print data for other programs as it is."""
    click.echo(text.encode(errors="replace"), nl=nl)


def emit_json(document: object) -> None:
    """The same for a document, as JSON."""
    emit(json_text(document))
