"""`moor export`: a run's figures for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from mooring.cli import options
from mooring.cli.say import emit, say

_FORMATS = ("csv", "tensorboard", "prometheus")


@click.command()
@options.run_name
@click.argument("kind", metavar="FORMAT", type=click.Choice(_FORMATS))
@click.option(
    "-o",
    "--output",
    "target",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Write there: a file, for tensorboard a folder. Otherwise printed.",
)
def export(run: str, kind: str, target: Path | None) -> None:
    """Write what a run measured for other tools: csv, tensorboard or prometheus.

    csv: a row for each report of steps and each sample of each member. tensorboard: event files in
    the folder given with -o (`tensorboard --logdir PATH`). prometheus: the figures as they are now,
    for the node exporter's textfile collector; the file is replaced whole.
    """
    from mooring.cli.run_names import find_run
    from mooring.model.errors import BadInput
    from mooring.report.finish import read_report
    from mooring.report.series import read_series

    record = find_run(run)
    figures = read_report(record)
    if kind == "prometheus":
        from mooring.report.export_prometheus import to_prometheus

        _write(target, to_prometheus(figures))
        return
    series = read_series(record, [member.member for member in figures.members])
    if kind == "csv":
        from mooring.report.export_csv import to_csv

        _write(target, to_csv(figures, series))
        return
    from mooring.report.export_tensorboard import write_tensorboard

    if target is None:
        raise BadInput.at("moor export", "--output", "nothing", "a folder for the event files")
    files = write_tensorboard(target, figures, series)
    if not files:
        raise BadInput.at("moor export", "RUN", f"{record.info.id}, without samples", "another run")
    for path in files:
        say(f"wrote {path}", err=True)


def _write(target: Path | None, text: str) -> None:
    from mooring.record.private import write_for_user

    if target is None:
        emit(text, nl=False)
    else:
        write_for_user(target, text)
        say(f"wrote {target}", err=True)
