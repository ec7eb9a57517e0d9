"""Writes the pages that come from the code, so that they cannot say anything else.

python docs/generate.py            writes them
python docs/generate.py --check    exits with 1 if one of them is out of date
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import click

from mooring.cli.main import cli
from mooring.spec.schema import cluster_reference_markdown, reference_markdown

_HERE = Path(__file__).resolve().parent
_NOTE = "<!-- Written by docs/generate.py: edit the code, then run `make docs`. -->\n\n"
#: Help is wrapped to this, whatever the terminal of whoever runs this.
_COLUMNS = 88


def command_reference() -> str:
    """Every command's help, as `moor COMMAND --help` prints it."""
    group = cli.make_context("moor", [], resilient_parsing=True, terminal_width=_COLUMNS)
    parts = [
        "# Command reference\n",
        "What `moor --help` and `moor COMMAND --help` print. A RUN is a run's id, the unique "
        "beginning of one, the name of a job (its latest run), a run directory's path, or "
        "`last`.\n",
        _block(cli.get_help(group)),
    ]
    for name in cli.list_commands(group):
        command = cli.get_command(group, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=group)
        parts += [f"## moor {name}\n", _block(command.get_help(context))]
    return "\n".join(parts)


def _block(text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def pages() -> dict[str, str]:
    """File name -> what it must say."""
    return {
        "job-reference.md": _NOTE + reference_markdown(),
        "cluster-reference.md": _NOTE + cluster_reference_markdown(),
        "cli.md": _NOTE + command_reference(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated pages of the documentation.")
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    check = parser.parse_args().check
    stale = 0
    for name, wanted in pages().items():
        path = _HERE / name
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        stale += 1
        if check:
            print(f"docs/{name} is out of date: run `make docs`", file=sys.stderr)
        else:
            path.write_text(wanted, encoding="utf-8")
            print(f"wrote docs/{name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
