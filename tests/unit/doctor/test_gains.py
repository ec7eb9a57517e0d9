"""What a finding promises is no more than what was seen to be lost."""

from __future__ import annotations

import pytest
from building import check_run, member, run, use

from mooring.doctor.finding import Gain
from mooring.doctor.probing import Compared
from mooring.report.gains import Losses, Speeds


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


FASTER = Speeds(((100.0, 900.0), (110.0, 910.0), (105.0, 950.0)))


@pytest.mark.parametrize(
    ("compared", "refused"),
    [
        (Compared(FASTER), ""),
        # Nine times as fast, and the loss is 130 % higher.
        (Compared(FASTER, Losses(1000, (0.5, 0.51, 0.52), (1.15, 1.17, 1.2))), "learns worse"),
        (Compared(FASTER, Losses(1000, (0.5, 0.51, 0.52), (0.5, 0.51, 0.53))), ""),
        (Compared(Speeds(((900.0, 100.0), (910.0, 110.0), (950.0, 105.0)))), "is slower"),
        (Compared(failed="no memory"), "fails (no memory)"),
    ],
)
def test_a_job_runs_as_it_was_if_remedies_do_harm(compared: Compared, refused: str) -> None:
    assert compared.refused.startswith(refused)
    assert bool(compared.refused) is bool(refused)
