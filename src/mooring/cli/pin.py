"""`moor pin`: a run that is to be kept."""

from __future__ import annotations

import click

from mooring.cli import options
from mooring.cli.say import say


@click.command()
@options.run_name
@click.option("--off", is_flag=True, help="It may be removed again.")
def pin(run: str, off: bool) -> None:
    """Keep a run whatever `moor serve` and `moor clean` remove."""
    from mooring.cli.run_names import find_run
    from mooring.record.private import FILE_MODE

    record = find_run(run)
    if off:
        record.pinned_file.unlink(missing_ok=True)
        say(f"{record.info.id} is not pinned any more")
    else:
        record.pinned_file.touch(mode=FILE_MODE)
        say(f"{record.info.id} is pinned")
