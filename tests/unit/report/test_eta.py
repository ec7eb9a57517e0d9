"""The time left: from the last minute's rate, none where nobody can say, and steady."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.status import Phase
from mooring.record import create_run
from mooring.report.eta import Eta, about, estimate_s
from mooring.report.view import MemberView, RunView
from mooring.wire.members import Step


def test_the_estimate_is_what_is_left_at_the_rate_of_the_points() -> None:
    points = [(0.0, 0.0), (5.0, 10.0), (10.0, 20.0)]
    assert estimate_s(points, 100, 10.0) == pytest.approx(40)
    assert estimate_s(points, 100, 12.0) == pytest.approx(38)
    assert estimate_s(points, 20, 10.0) == 0


@pytest.mark.parametrize(
    ("points", "now_s"),
    [
        ([], 0.0),
        ([(0.0, 1.0)], 1.0),
        ([(0.0, 1.0), (0.05, 2.0)], 1.0),  # too short
        ([(0.0, 5.0), (10.0, 5.0)], 10.0),  # no step
        ([(0.0, 0.0), (5.0, 10.0), (10.0, 20.0)], 60.0),  # none for long
    ],
)
def test_there_is_none_where_nobody_can_say(
    points: list[tuple[float, float]], now_s: float
) -> None:
    assert estimate_s(points, 100, now_s) is None


def test_small_changes_do_not_move_the_end_that_was_told() -> None:
    eta = Eta()
    # The first ones are not told at all.
    assert eta.left_s(0, 500) is None
    assert eta.left_s(2, 50) is None
    assert eta.left_s(10, 100) == 100
    assert eta.left_s(20, 95) == 90
    assert eta.left_s(30, 75) == 80
    assert eta.left_s(40, 140) == 140
    assert eta.left_s(50, None) is None
    assert eta.left_s(60, 70) is None
    assert eta.left_s(63, 70) == 70


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_what_is_told_is_never_far_from_the_estimate(estimates: list[float]) -> None:
    eta = Eta()
    for now_s, estimate in enumerate(estimates):
        told = eta.left_s(float(now_s), estimate)
        assert (told is None) is (now_s < 3)
        if told is not None:
            assert abs(told - estimate) <= 0.1 * max(estimate, 10.0) + 1e-3


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "about 5 s"),
        (33, "about 35 s"),
        (61, "about 1 min"),
        (1000, "about 17 min"),
        (3700, "about 1 h"),
        (12345, "about 3 h 30 min"),
        (100_000, "about 1 d 4 h"),
    ],
)
def test_it_is_told_no_finer_than_it_can_be_known(seconds: float, said: str) -> None:
    assert about(seconds) == said


def steps(member: MemberView, first: int, count: int, **fields: int) -> None:
    for step in range(first, first + count):
        member.apply(Step(float(step), step=step, **fields))


def test_a_run_tells_it_from_its_furthest_member(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    view = RunView(create_run("job", directory=None, virtual_nodes=0, source="", version="0"))
    view.phase = Phase.RUNNING
    view.members["worker-0"] = MemberView("worker-0", "worker")
    assert view.left_s(0) is None
    steps(view.members["worker-0"], 0, 21)
    assert view.left_s(20) is None, "nobody knows how many there are"
    view.total_steps = 50
    assert view.left_s(20) == pytest.approx(30)
    # A restart begins again, at another pace.
    steps(view.members["worker-0"], 21, 1, attempt=1)
    assert view.left_s(21) is None
    view.phase = Phase.STOPPING
    steps(view.members["worker-0"], 22, 9, attempt=1)
    assert view.left_s(30) is None
