"""What a finding promises is no more than what was seen to be lost."""

from __future__ import annotations

import pytest
from building import check_run, member, run, use

from mooring.doctor.finding import Gain


@pytest.mark.parametrize(
    ("wanted", "others", "at_most"),
    [
        # Of a step the others wait for 0.9 - 0.4: 1 / (1 - 0.5)
        (0.9, 0.4, 2.0),
        # Three CPUs at once are not more than all of the time: 1 / (1 - (1.0 - 0.5))
        (3.0, 0.5, 2.0),
        # Nine times the CPU time, and a quarter of the step: 1 / (1 - 0.4)
        (0.45, 0.05, 1 / 0.6),
    ],
)
def test_a_straggler_costs_no_more_than_the_others_wait(
    wanted: float, others: float, at_most: float
) -> None:
    workers = [
        member(f"worker-{index}", use(cpu_s=10 * cpus, wait_s=0.0), examples_per_s=100.0)
        for index, cpus in enumerate((wanted, others, others))
    ]
    [found] = check_run("straggler", run(*workers))
    assert found.members == ("worker-0",)
    assert found.gain is not None
    assert found.gain.high == pytest.approx(at_most)


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (Gain(1.0, 2.6, ""), "at most 2.6×"),
        (Gain(0.97, 1.14, ""), "0.97 to 1.1×"),
        (Gain(3.0, 3.0, ""), "3×"),
        (Gain(1.0, 1.0, ""), "1×"),
    ],
)
def test_a_bound_is_called_a_bound(gain: Gain, said: str) -> None:
    assert gain.said == said
