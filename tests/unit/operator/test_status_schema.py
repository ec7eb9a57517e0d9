"""An API server keeps all of what the operator writes: it drops what its schema does not name."""

from __future__ import annotations

from typing import Any

from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.status import StatusFigures, encode
from mooring.install.status_schema import JOB_STATUS
from mooring.lifecycle import JobOutcome, JobState, MemberStatus
from mooring.model.member import MemberId
from mooring.model.plan import Slot
from mooring.model.status import MemberState, Phase

_TYPES = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "array": list,
}


def kept(value: Any, schema: dict[str, Any]) -> Any:
    """What a server stores of it; fails where it would refuse."""
    assert isinstance(value, _TYPES[schema["type"]]), (value, schema)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, list):
        assert len(value) <= schema["maxItems"]
        return [kept(one, schema["items"]) for one in value]
    if isinstance(value, dict):
        assert set(schema.get("required", ())) <= set(value)
        others = schema.get("additionalProperties")
        known = schema.get("properties", {})
        return {
            key: kept(one, known.get(key, others))
            for key, one in value.items()
            if key in known or others is not None
        }
    assert value in schema.get("enum", [value])
    assert not isinstance(value, str) or len(value) <= schema.get("maxLength", len(value))
    return value


def test_a_status_with_everything_in_it_is_kept_whole() -> None:
    first, second = MemberId("worker", 0), MemberId("worker", 1)
    state = JobState(
        phase=Phase.RUNNING,
        members={
            first: MemberStatus(MemberState.RUNNING, placed=True, ready=True),
            second: MemberStatus(MemberState.FAILED, placed=True, attempt=2),
        },
        epoch=3,
        restarts=1,
        started_at_s=50.0,
        restart_at_s=90.0,
        outcome=JobOutcome(Phase.FAILED, "worker-1 failed"),
        reason="worker-1 failed",
    )
    record = TrainingJobRecord(
        stage=Stage.ADMITTED,
        epoch=3,
        restarts=1,
        state=state,
        slots={first: Slot("n1", (0, 1), (0,), (3,), True), second: Slot("n2", (0,))},
        reason="MemberFailed",
        message="worker-1 failed",
        taken_back=1,
        not_before_s=10.0,
        queued_at_s=1.0,
        admitted_at_s=20.0,
        running_at_s=60.0,
        finished_at_s=100.0,
    )
    figures = StatusFigures(
        1,
        2,
        "ads",
        4,
        bound=True,
        examples_per_s=12.34,
        step=40,
        pinning={"worker-0": "exclusive 1"},
    )
    status = encode(record, figures, {}, 100.0)
    assert set(status) == set(JOB_STATUS["properties"])
    assert kept(status, JOB_STATUS) == status


def test_what_the_schema_does_not_name_would_be_lost() -> None:
    assert kept({"phase": "Running", "mood": "good"}, JOB_STATUS) == {"phase": "Running"}
