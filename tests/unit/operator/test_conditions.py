"""The conditions of a job follow from its record, not from which of its statuses were written."""

from __future__ import annotations

from typing import Any

from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.status import StatusFigures, encode
from mooring.lifecycle import JobState
from mooring.model.status import Phase

FIGURES = StatusFigures(0, 2, "default", 1)


def conditions(record: TrainingJobRecord, before: dict[str, Any]) -> list[tuple[str, str]]:
    found: Any = encode(record, FIGURES, before, 20.0)["conditions"]
    return [(one["type"], one["status"]) for one in found]


def test_a_job_that_is_admitted_before_its_waiting_was_written_was_queued_too() -> None:
    waiting = encode(TrainingJobRecord(stage=Stage.QUEUED), FIGURES, {}, 10.0)
    admitted = TrainingJobRecord(
        stage=Stage.ADMITTED, state=JobState(phase=Phase.STARTING, members={})
    )
    assert conditions(admitted, dict(waiting)) == conditions(admitted, {})
    assert conditions(admitted, {})[0] == ("Queued", "False")
