"""From when on no step is a standstill; the arithmetic beside each case."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.stalls import ProgressTracker
from mooring.wire import Record
from mooring.wire.members import Ready, Step
from mooring.wire.samples import Sample


def told(*records: Record) -> ProgressTracker:
    progress = ProgressTracker()
    progress.add("worker-0", Ready(0.0))
    for record in records:
        progress.add("worker-0", record)
    return progress


def steps(*times: float, **more: Any) -> list[Step]:
    return [Step(at_s, **more) for at_s in times]


@pytest.mark.parametrize(
    ("times", "limit_s"),
    [
        # Nothing is known yet: a pause of a checkpoint is none.
        ([10.0], 30.0),
        # 5 × 0.1 s is less than what any checkpoint takes.
        ([10.0, 10.1, 10.2], 30.0),
        # 5 × 20 s
        ([10.0, 30.0, 50.0], 100.0),
        # The first pause has compilation in it: it counts while little else is known…
        ([10.0, 110.0, 111.0], 500.0),
        # …and no longer after five more: 5 × 1 s
        ([10.0, 110.0, 111.0, 112.0, 113.0, 114.0, 115.0, 116.0], 30.0),
    ],
)
def test_the_limit_grows_with_the_longest_pause(times: list[float], limit_s: float) -> None:
    assert told(*steps(*times)).limit_s == limit_s


def test_steps_that_were_summed_up_count_each() -> None:
    # (12 - 10) s / 8 steps
    assert told(*steps(10.0), *steps(12.0, reports=8)).usual_s == 0.25


def test_before_the_first_step_work_counts() -> None:
    compiling = Sample(61.0, cpu_s=60.0)
    before = Sample(1.0, cpu_s=0.5)
    assert told(before, compiling).last_s == 61.0
    idle = replace(compiling, cpu_s=0.6)
    assert told(before, idle).last_s == 0.0
    starved = replace(idle, wait_s=30.0)
    assert told(before, starved).last_s == 61.0
    talking = replace(idle, rx_bytes=10_000_000)
    assert told(before, talking).last_s == 61.0


def test_after_the_first_step_only_steps_count() -> None:
    """A rank that spins while it waits uses a whole CPU."""
    spinning = [Sample(at_s, cpu_s=at_s) for at_s in (11.0, 100.0)]
    progress = told(*steps(10.0), *spinning)
    progress.output(1000, 100.0)
    assert progress.last_s == 10.0


def test_output_counts_before_the_first_step() -> None:
    progress = told()
    progress.output(10, 50.0)
    progress.output(10, 70.0)
    assert progress.last_s == 50.0


def test_a_new_start_is_a_start_again() -> None:
    again = Ready(60.0, epoch=1)
    progress = told(*steps(10.0, 11.0, step=7), again)
    assert not progress.stepped
    assert progress.last_s == 60.0


def test_all_steps_done_is_no_standstill() -> None:
    assert told(*steps(10.0, step=100, total=100)).complete
    assert not told(*steps(10.0, step=99, total=100)).complete


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_steps_at_the_pace_so_far_never_stall(times: list[float]) -> None:
    """Whoever goes on as it did is never looked at."""
    ordered = sorted(times)
    progress = told(*steps(*ordered))
    pauses_s = [after - before for before, after in pairwise(ordered)]
    assert progress.limit_s >= max(pauses_s[1:] or pauses_s)
