from __future__ import annotations

import pytest

from mooring.bodies.kubernetes.live import MemberLive, parse_live
from mooring.operator.pulse import pinning_of, rate_of


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
