"""When the checks of CPUs speak, and when they keep silent; the arithmetic beside each case."""

from __future__ import annotations

import pytest
from building import JOB, check_run, member, run, use

from mooring.doctor.registry import Unknown


@pytest.mark.parametrize(
    ("told", "runnable", "found"),
    [
        (1, 0.8, False),
        # Four are never too many: TensorFlow's servers need three.
        (4, 2.0, False),
        # 5 > max(4, 2 × 2 CPUs)
        (5, 2.0, True),
        (80, 2.0, True),
        # Told well, but three ready threads a CPU: 6.1 > 3 × 2.
        (1, 6.1, True),
        (1, 5.9, False),
    ],
)
def test_threads_against_two_cpus(told: int, runnable: float, found: bool) -> None:
    # runnable = (cpu_s + wait_s) / 10 s
    used = use(cpu_s=7.5, wait_s=10 * runnable - 7.5)
    answer = check_run("cpu-threads", run(member("worker-0", used, threads_told=told)))
    assert bool(answer) is found


def test_threads_that_the_job_sets_are_taken_out_of_it() -> None:
    job = JOB.replace("command", "threads: 80\n  env: {OMP_NUM_THREADS: '80'}\n  command")
    facts = run(
        member("worker-0", threads_told=80, threads_kept={"OMP_NUM_THREADS": "80"}), job=job
    )
    [found] = check_run("cpu-threads", facts)
    assert [str(change) for change in found.remedy.changes] == [
        "spec.threads: auto",
        "remove spec.env.OMP_NUM_THREADS",
    ]


def test_threads_that_the_program_sets_are_a_matter_of_its_code() -> None:
    [found] = check_run("cpu-threads", run(member("worker-0", use(wait_s=200.0))))
    assert not found.remedy.changes
    assert "set_num_threads" in found.remedy.code


@pytest.mark.parametrize(
    ("held_back", "periods", "found"),
    [
        (0, 100, False),
        # 9 of 100 periods
        (9, 100, False),
        (10, 100, True),
        # Too few to tell.
        (4, 8, False),
        # Without the number of periods: 10 s hold 100 of 100 ms.
        (10, 0, True),
    ],
)
def test_throttling_by_periods(held_back: int, periods: int, found: bool) -> None:
    used = use(throttled_periods=held_back, periods=periods, throttled_s=1.0)
    answer = check_run("cpu-throttled", run(member("worker-0", used)))
    assert bool(answer) is found


def test_throttling_gains_the_time_that_nothing_ran() -> None:
    # 4 s held back on the one CPU it was seen on, of 10 s: 0.4 lost, 1 / 0.6 = 1.67 to gain;
    # 1.2 CPUs used / 0.6 = 2 wanted.
    used = use(throttled_periods=90, periods=100, throttled_s=4.0, cpu_s=12.0)
    [found] = check_run("cpu-throttled", run(member("worker-0", used, seen_cpus={0: 3})))
    assert found.gain is not None
    assert found.gain.high == pytest.approx(1 / 0.6)
    assert [str(one) for one in found.remedy.changes] == ["spec.roles.worker.resources.cpu: 2"]


@pytest.mark.parametrize("check", ["cpu-threads", "cpu-throttled"])
def test_too_few_samples_are_no_answer(check: str) -> None:
    from dataclasses import replace

    with pytest.raises(Unknown):
        check_run(check, run(replace(member("worker-0"), use=None)))
