"""A line of `moor ps` for each run: how it stands, how long it took, how fast it was.

Of ended runs the report is read, which is short; of the others what their members wrote so far.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from mooring.model.errors import BadInput
from mooring.record import RunRecord
from mooring.report.figures import figures
from mooring.report.view import RunView

_FINAL = ("Succeeded", "Failed", "Stopped")


#: Of seconds and examples, beyond which nothing was measured.
_LARGEST = 1e15


@dataclass(frozen=True)
class RunLine:
    """One run. `examples_per_s` is over all its time if it has ended, else of the last seconds."""

    run: str
    phase: str
    running: int
    members: int
    nodes: int
    took_s: float | None
    examples_per_s: float | None
    started_s: float
    reason: str
    directory: str
    ended: bool
    queue_job: str = ""
    """Its job's id in the machine's queue; '' if it did not come from there."""


def line_of(run: RunRecord) -> RunLine:
    return _of_report(run) or _of_samples(run)


def _of_report(run: RunRecord) -> RunLine | None:
    try:
        told: dict[str, Any] = json.loads(run.report_file.read_text(encoding="utf-8"))
        if str(told["phase"]) not in _FINAL:
            return None
        return _line(
            run,
            phase=str(told["phase"]),
            reason=str(told["reason"]),
            members=len(told["members"]),
            took_s=_amount(told["wall_s"]),
            examples_per_s=_amount(told["examples_per_s"]),
            ended=True,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _amount(value: object) -> float | None:
    """Raises TypeError for what is neither an amount nor missing."""
    if value is None or (isinstance(value, int | float) and 0 <= value <= _LARGEST):
        return value
    raise TypeError("no amount")


def _of_samples(run: RunRecord) -> RunLine:
    view = RunView(run)
    try:
        view.update()
    except BadInput as error:
        return _line(
            run,
            phase="Unknown",
            reason=str(error),
            members=len(view.members),
            took_s=None,
            examples_per_s=None,
            ended=not run.alive(),
        )
    so_far = figures(view)
    return _line(
        run,
        phase=so_far.phase,
        reason=so_far.reason,
        running=sum(member.state == "running" for member in view.members.values()),
        members=len(view.members),
        took_s=so_far.wall_s,
        examples_per_s=so_far.examples_per_s if view.phase.final else view.examples_per_s,
        ended=view.phase.final,
    )


def _line(
    run: RunRecord,
    *,
    phase: str,
    reason: str,
    members: int,
    took_s: float | None,
    examples_per_s: float | None,
    ended: bool,
    running: int = 0,
) -> RunLine:
    return RunLine(
        run=run.info.id,
        phase=phase,
        running=running,
        members=members,
        nodes=run.info.virtual_nodes or 1,
        took_s=took_s,
        examples_per_s=examples_per_s,
        started_s=run.info.created_s,
        reason=reason,
        directory=str(run.root),
        ended=ended,
        queue_job=run.info.queue_job,
    )
