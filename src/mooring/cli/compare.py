"""`moor compare`: two runs or two logs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.say import emit_json, say

if TYPE_CHECKING:
    from mooring.doctor.comparing import RunComparison, Side

_MOST_DIFFERENCES = 20
_MOST_ROWS = 200
_MOST_ALIKE = 6


@click.command()
@click.argument("a", metavar="A", shell_complete=options.complete_run)
@click.argument("b", metavar="B", shell_complete=options.complete_run)
@options.output("table", "json")
def compare(a: str, b: str, output: str) -> None:
    """Say what differs between two runs, or two benchmark logs, and what the pattern means.

    A and B are runs, or text files with lines such as `resnet18 train time : 41.4 ms`. Ratios are
    B ÷ A of the medians; where a measure was repeated, the range of the repetitions follows.
    """
    from mooring.doctor.comparing import compare as put_side_by_side

    found = put_side_by_side(_side(a), _side(b))
    if output == "json":
        emit_json(found.document())
    else:
        _print(found)


def _side(name: str) -> Side:
    path = Path(name)
    if path.is_file():
        from mooring.doctor.read_log import read_log

        return read_log(path)
    from mooring.cli.run_names import find_run
    from mooring.doctor.read_measures import read_measures

    return read_measures(find_run(name))


def _print(found: RunComparison) -> None:
    from mooring.cli.console import console as make_console
    from mooring.doctor.comparing import readable, times
    from mooring.report.columns import Columns

    console = make_console()
    for verdict in found.verdicts:
        rows = []
        for row in verdict.rows[:_MOST_ROWS]:
            spread = "" if row.low == row.high else f"{times(row.low)}–{times(row.high)}"
            name = row.name.removesuffix(verdict.family).strip() or row.name
            rows.append((name, *readable(row), times(row.ratio), spread))
        figures = ("A", "B", "B ÷ A", "range")
        table = Columns.of_rows((verdict.family, *figures), rows, right=figures)
        console.print(table)
        if len(verdict.rows) > _MOST_ROWS:
            say(f"… and {len(verdict.rows) - _MOST_ROWS:,} more (see -o json)")
        console.print(f"→ {verdict.says}\n", soft_wrap=True)
    _context(found)
    if not found.verdicts:
        say("nothing was measured on both sides")


def _context(found: RunComparison) -> None:
    for what, ours, theirs in found.differences[:_MOST_DIFFERENCES]:
        say(f"differs: {what}: {ours} | {theirs}")
    if len(found.differences) > _MOST_DIFFERENCES:
        say(f"… and {len(found.differences) - _MOST_DIFFERENCES} more (see -o json)")
    if found.alike and len(found.alike) <= _MOST_ALIKE:
        say("the same: " + "; ".join(f"{what}: {value}" for what, value in found.alike))
    for side, names in (("A", found.only_a), ("B", found.only_b)):
        if names:
            say(f"only in {side}: {', '.join(names[:_MOST_DIFFERENCES])}")
