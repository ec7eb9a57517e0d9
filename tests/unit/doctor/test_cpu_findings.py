"""When the checks of CPUs speak, and when they keep silent; the arithmetic beside each case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from building import JOB, check_run, member, run, use

from mooring.doctor.facts import CpuPlace, MemberFacts
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
        # Told well, but four ready threads a CPU: 8.1 > 4 × 2.
        (1, 8.1, True),
        (1, 7.9, False),
    ],
)
def test_threads_against_two_cpus(told: int, runnable: float, found: bool) -> None:
    # runnable = (cpu_s + wait_s) / 10 s
    used = use(cpu_s=7.5, wait_s=10 * runnable - 7.5)
    answer = check_run("cpu-threads", run(member("worker-0", used, threads_told=told)))
    assert bool(answer) is found


@pytest.mark.parametrize(
    ("members", "told", "runnable", "found"),
    [
        # Two members with two threads each on two CPUs: 4 > 2, and 2 × 1.9 > 1.25 × 2 are ready.
        (2, 2, 1.9, True),
        # The same, but they wait for something else than CPUs: 2 × 1.2 < 2.5.
        (2, 2, 1.2, False),
        # One thread each is never too many, however many members there are.
        (4, 1, 1.0, False),
        # Four members with two threads: 4 × 1.8 = 7.2 > 1.25 × 4.
        (4, 2, 1.8, True),
        # Alone it may use both.
        (1, 2, 1.9, False),
    ],
)
def test_threads_of_members_that_share_two_cpus(
    members: int, told: int, runnable: float, found: bool
) -> None:
    used = use(cpu_s=7.5, wait_s=10 * runnable - 7.5)
    sharing = [member(f"worker-{at}", used, threads_told=told) for at in range(members)]
    answer = check_run("cpu-threads", run(*sharing))
    assert bool(answer) is found
    if found:
        assert f"{members * told} threads together on the 2 CPUs" in answer[0].says


def test_members_on_cpus_of_their_own_do_not_share() -> None:
    used = use(cpu_s=7.5, wait_s=12.0)
    apart = [
        member(
            f"worker-{at}",
            used,
            threads_told=2,
            held_cpus=frozenset({2 * at, 2 * at + 1}),
            allowed_cpus=frozenset({2 * at, 2 * at + 1}),
        )
        for at in range(2)
    ]
    assert not check_run("cpu-threads", run(*apart))


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
    # 4 s held back of 10 s, with one thread ready: 0.4 lost, 1 / 0.6 = 1.67 to gain;
    # 1.2 CPUs used / 0.6 = 2 wanted.
    used = use(throttled_periods=90, periods=100, throttled_s=4.0, cpu_s=12.0)
    [found] = check_run("cpu-throttled", run(member("worker-0", used, seen_cpus={0: 3})))
    assert found.gain is not None
    assert found.gain.high == pytest.approx(1 / 0.6)
    assert [str(one) for one in found.remedy.changes] == ["spec.roles.worker.resources.cpu: 2"]


def exclusive(cpu_s: float, wait_s: float, **changes: Any) -> MemberFacts:
    """A member with CPU 0 of its own."""
    cpus = {"held_cpus": frozenset({0}), "allowed_cpus": frozenset({0}), "exclusive": True}
    return member("worker-0", use(cpu_s=cpu_s, wait_s=wait_s), **{**cpus, **changes})


@pytest.mark.parametrize(
    ("cpu_s", "wait_s", "found"),
    [
        # Wanted 1.0, got 1.0.
        (10.0, 0.0, False),
        # Wanted 1.0 (8.1 + 1.9), got 0.81: 19 % taken.
        (8.1, 1.9, False),
        (7.9, 2.1, True),
        # Two own threads take turns on one CPU: it gets all of it.
        (10.0, 10.0, False),
        # Hardly wanted anything.
        (0.1, 0.5, False),
    ],
)
def test_a_neighbour_on_its_cpu(cpu_s: float, wait_s: float, found: bool) -> None:
    assert bool(check_run("cpu-neighbour", run(exclusive(cpu_s, wait_s)))) is found


def test_who_left_its_cpus_has_no_neighbours_there() -> None:
    with pytest.raises(Unknown):
        check_run("cpu-neighbour", run(exclusive(2.0, 8.0, allowed_cpus=frozenset({0, 1}))))


@pytest.mark.parametrize(
    ("wait_s", "found"),
    # 10 s of CPU time; 1.5 threads, 1.6 threads, 3.1 threads (a matter of thread counts)
    [(0.0, False), (5.0, False), (6.0, True), (21.0, False)],
)
def test_more_work_than_its_cpu(wait_s: float, found: bool) -> None:
    answer = check_run("cpu-starved", run(exclusive(10.0, wait_s)))
    assert bool(answer) is found
    if answer:
        # 1.6 threads: two CPUs.
        assert str(answer[0].remedy.changes[0]) == "spec.roles.worker.resources.cpu: 2"


@pytest.mark.parametrize(
    ("asked", "wanted", "cpu"),
    [
        (1, 0.1, None),
        # 4 asked, 0.8 wanted: 3.2 idle; 0.8 × 1.5 = 1.2 -> 2.
        (4, 0.8, 2),
        # More than half was wanted.
        (4, 2.1, None),
        (2, 0.1, 1),
        # 2.5 × 1.5 = 3.75 -> 4
        (8, 2.5, 4),
    ],
)
def test_cpus_that_are_not_wanted(asked: int, wanted: float, cpu: int | None) -> None:
    used = use(cpu_s=10 * wanted, wait_s=0.0)
    found = check_run("cpu-idle", run(member("worker-0", used, asked_millis=1000 * asked)))
    assert [change.value for one in found for change in one.remedy.changes] == (
        [] if cpu is None else [cpu]
    )


def narrowed(index: int, cpus: set[int], cpu_s: float) -> MemberFacts:
    return member(
        f"worker-{index}", use(cpu_s=cpu_s, wait_s=10 - cpu_s), allowed_cpus=frozenset(cpus)
    )


@pytest.mark.parametrize(
    ("members", "found"),
    [
        # Both want a whole CPU and have half of one.
        ([narrowed(0, {0}, 5.0), narrowed(1, {0}, 5.0)], True),
        ([narrowed(0, {0}, 5.0), narrowed(1, {1}, 5.0)], False),
        # As given, not narrowed by the program.
        ([narrowed(0, {0, 1}, 5.0), narrowed(1, {0, 1}, 5.0)], False),
        # One of them does not compute.
        ([narrowed(0, {0}, 9.0), member("worker-1", use(cpu_s=0.5, wait_s=1.0))], False),
    ],
)
def test_sets_that_overlap(members: list[MemberFacts], found: bool) -> None:
    assert bool(check_run("cpu-overlap", run(*members))) is found


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"exclusive": False}, "shared CPUs"),
        ({"pinned": False}, "could not pin"),
        ({"pinning_note": "asked for CPUs 0, holds 0,1"}, "holds 0,1"),
        ({"allowed_cpus": frozenset({0, 1})}, "widened"),
    ],
)
def test_not_pinned_although_asked(changes: dict[str, Any], says: str) -> None:
    job = JOB.replace("command", "pinning: exclusive\n  command")
    found = check_run("cpu-not-pinned", run(exclusive(5.0, 0.0, **changes), job=job))
    assert bool(found) is bool(says)
    assert not found or says in found[0].says


@pytest.mark.parametrize(
    ("peak", "killed", "memory"),
    # MiB of a limit of 1000: 899; 900 × 1.3; killed: 2 × 1000
    [(899, False, None), (900, False, "1170Mi"), (500, True, "2000Mi")],
)
def test_memory_against_the_limit(peak: int, killed: bool, memory: str | None) -> None:
    one = member(
        "worker-0",
        memory_limit_bytes=1000 << 20,
        memory_enforced=True,
        peak_memory_bytes=peak << 20,
        out_of_memory=killed,
    )
    found = check_run("mem-limit", run(one))
    assert [change.value for one in found for change in one.remedy.changes] == (
        [] if memory is None else [memory]
    )


@pytest.mark.parametrize(("used", "found"), [(89, False), (90, True)])
def test_shared_memory(used: int, found: bool) -> None:
    one = member("worker-0", shm_bytes=100, shm_used_bytes=used)
    assert bool(check_run("shm-full", run(one))) is found


#: Two cells of eight CPUs, four to a cache.
PLACES = tuple(CpuPlace(cpu, cpu // 4, cpu // 8) for cpu in range(16))


@pytest.mark.parametrize(
    ("seen", "wanted", "says"),
    [
        # All on one cache.
        ({0: 10, 1: 10, 2: 5}, 2.0, ""),
        # 10 of 30 on another cache of the same cell.
        ({0: 10, 1: 10, 4: 10}, 2.0, "L3 caches"),
        # 5 of 30: below a fifth.
        ({0: 15, 1: 10, 4: 5}, 2.0, ""),
        # 10 of 30 on the other cell.
        ({0: 10, 1: 10, 8: 10}, 2.0, "NUMA cells"),
        # It wants more than a cache of four has, and has them in one cell.
        ({0: 10, 1: 10, 4: 10}, 6.0, ""),
    ],
)
def test_wandering(seen: dict[int, int], wanted: float, says: str) -> None:
    used = use(cpu_s=10 * wanted, wait_s=0.0)
    facts = run(member("worker-0", used, seen_cpus=seen), topology=PLACES)
    found = check_run("cpu-wandering", facts)
    assert bool(found) is bool(says)
    if found:
        assert says in found[0].says
        assert [str(one) for one in found[0].remedy.changes] == ["spec.pinning: exclusive"]


def test_pinned_members_and_single_caches_do_not_wander() -> None:
    seen = {0: 10, 8: 10}
    facts = run(member("worker-0", seen_cpus=seen, exclusive=True), topology=PLACES)
    assert not check_run("cpu-wandering", facts)
    with pytest.raises(Unknown):
        check_run("cpu-wandering", run(member("worker-0", seen_cpus=seen)))


@pytest.mark.parametrize("check", ["cpu-threads", "cpu-throttled", "cpu-idle", "cpu-overlap"])
def test_too_few_samples_are_no_answer(check: str) -> None:
    with pytest.raises(Unknown):
        check_run(check, run(replace(member("worker-0"), use=None)))
