from __future__ import annotations

import pytest

from mooring.backends.kubernetes.jobs.live_figures import (
    LastStep,
    all_done,
    counts_of,
    pinning_of,
    rate_of,
    stalled_of,
)
from mooring.backends.kubernetes.objects.live import MemberLive, parse_live
from mooring.spec import parse_job


def counted(**examples: float | None) -> dict[str, MemberLive]:
    return {name: MemberLive(examples=value) for name, value in examples.items()}


@pytest.mark.parametrize(
    ("before", "after", "rate"),
    [
        # (300 - 100 + 250 - 50) / 5 s
        (counted(a=100, b=50), counted(a=300, b=250), 80.0),
        # b started anew and has done 20 since: (200 + 20) / 5
        (counted(a=100, b=50), counted(a=300, b=20), 44.0),
        # c is new: (0 + 10) / 5
        (counted(a=100), counted(a=100, c=10), 2.0),
        (counted(a=100), counted(a=100), 0.0),
        (counted(a=None), counted(a=None), None),
        ({}, {}, None),
    ],
)
def test_examples_a_second_of_all_members(
    before: dict[str, MemberLive], after: dict[str, MemberLive], rate: float | None
) -> None:
    assert rate_of(before, after, 5.0) == rate


def test_no_time_has_no_rate() -> None:
    assert rate_of(counted(a=1), counted(a=2), 0.0) is None


def test_a_status_names_what_each_member_holds() -> None:
    members = parse_live(
        {
            "members": {
                "worker-0": {"cpus": [2, 3], "own": True, "own_why": ""},
                "ps-0": {"cpus": [0, 1], "own": False, "own_why": ""},
                "worker-1": {"cpus": [0, 1], "own": False, "own_why": "its kubelet does not pin"},
                "late": {},
            }
        }
    )
    assert pinning_of(members) == {
        "worker-1": "shared 0-1: its kubelet does not pin",
        "ps-0": "shared 0-1",
        "worker-0": "exclusive 2-3",
    }


def test_of_a_large_gang_those_without_what_they_asked_for_are_named() -> None:
    members = {f"worker-{index}": MemberLive("0", True) for index in range(100)}
    members["worker-99"] = MemberLive("0-7", False, "its kubelet does not pin")
    named = pinning_of(members)
    assert len(named) == 32
    assert named["worker-99"] == "shared 0-7: its kubelet does not pin"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"members": []},
        {"members": {"a": None}},
        {"members": {"a": {"step": "x", "cpus": "0", "examples": True, "loss": []}}},
    ],
)
def test_whatever_a_pod_answers_is_read_without_a_crash(answer: object) -> None:
    assert all(one == MemberLive() for one in parse_live(answer).values())  # type: ignore[arg-type]


JOB = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: indexed
  command: [python]
  roles: {worker: {}}
  failurePolicy: POLICY
"""


@pytest.mark.parametrize(
    ("policy", "last", "stalled"),
    [
        ("{stallTimeout: 60s, onStall: fail}", LastStep(2, 100.0, 160.0), True),
        ("{stallTimeout: 60s, onStall: fail}", LastStep(2, 100.0, 159.0), False),
        ("{stallTimeout: 60s, onStall: restart}", LastStep(2, 100.0, 900.0), True),
        # It could not be asked since: nothing is known of its steps.
        ("{stallTimeout: 60s, onStall: fail}", LastStep(2, 100.0, 100.0), False),
        # It has made none yet.
        ("{stallTimeout: 60s, onStall: fail}", None, False),
        ("{stallTimeout: 60s}", LastStep(2, 100.0, 900.0), False),
        ("{}", LastStep(2, 100.0, 900.0), False),
    ],
)
def test_when_a_job_stands_still(policy: str, last: LastStep | None, stalled: bool) -> None:
    found = stalled_of(parse_job(JOB.replace("POLICY", policy), "job.yaml"), last)
    assert (found is not None) == stalled
    if found is not None:
        assert found.epoch == 2
        assert "its stallTimeout is 1m" in found.reason


def test_steps_or_examples_are_progress_and_the_last_step_is_the_end() -> None:
    one = MemberLive(step=5, examples=10.0, total=9)
    assert counts_of({"a": one, "b": MemberLive()}) == {"a": (5, 10.0)}
    assert not all_done({"a": one})
    assert all_done({"a": one, "b": MemberLive(step=9, total=9)})
