"""report.json: the figures of an ended run, kept beside its samples."""

from __future__ import annotations

from contextlib import suppress

from mooring.model.strict_json import json_text
from mooring.record import RunRecord
from mooring.record.private import write_whole
from mooring.report.figures import Report, figures
from mooring.report.view import RunView


def read_report(run: RunRecord) -> Report:
    """The figures as far as the run has come."""
    view = RunView(run)
    view.update()
    return figures(view)


def write_report(run: RunRecord) -> Report:
    """The figures of an ended run, also written down. A full disk does not hide them."""
    report = read_report(run)
    with suppress(OSError):
        write_whole(run.report_file, json_text(report.document()))
    return report
