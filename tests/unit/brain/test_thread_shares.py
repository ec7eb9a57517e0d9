"""Threads of members that share CPUs: never more together than CPUs, unless members are more."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mooring.brain import thread_shares
from mooring.brain.thread_shares import Sharer, threads_of


def cpus(count: int, first: int = 0) -> frozenset[int]:
    return frozenset(range(first, first + count))


@pytest.mark.parametrize(
    ("sharers", "threads"),
    [
        pytest.param([Sharer(cpus(2)), Sharer(cpus(2))], [1, 1], id="two-on-two"),
        pytest.param([Sharer(cpus(2))] * 4, [1] * 4, id="more-members-than-cpus"),
        pytest.param([Sharer(cpus(8))], [8], id="alone"),
        # 2.5 CPUs keep three threads busy half of the time.
        pytest.param([Sharer(cpus(8), 2500)], [3], id="alone-with-a-fraction"),
        # 4 / 3 = 1.33: two threads each would be six on four CPUs.
        pytest.param([Sharer(cpus(4))] * 3, [1, 1, 1], id="rounded-down"),
        # 1.5 each: two threads each are four on four CPUs.
        pytest.param([Sharer(cpus(4), 1500)] * 2, [2, 2], id="rounded-up-where-it-fits"),
        pytest.param([Sharer(cpus(3), 1500)] * 2, [1, 1], id="rounded-down-where-not"),
        pytest.param([Sharer(cpus(8), processes=4)], [2], id="processes-divide"),
        pytest.param([Sharer(cpus(4), processes=3)], [1], id="processes-divide-down"),
        pytest.param([Sharer(cpus(8), 3000), Sharer(cpus(8))], [3, 5], id="what-is-left"),
        pytest.param(
            [Sharer(cpus(2), exclusive=True), Sharer(cpus(4, 2)), Sharer(cpus(4, 2))],
            [2, 2, 2],
            id="exclusive-beside-shared",
        ),
        # mpirun starts ranks and waits: eight CPUs for two workers, none for it.
        pytest.param(
            [Sharer(cpus(8), computes=False), Sharer(cpus(8)), Sharer(cpus(8))],
            [4, 4, 4],
            id="who-only-starts-others",
        ),
        pytest.param([Sharer(cpus(2), 2000), Sharer(cpus(2))], [2, 1], id="nothing-left"),
        # Virtual nodes with a CPU each that overlap: CPU 0 is shared by two.
        pytest.param([Sharer(cpus(1)), Sharer(cpus(1, 1)), Sharer(cpus(1))], [1, 1, 1], id="cut"),
    ],
)
def test_threads(sharers: list[Sharer], threads: list[int]) -> None:
    assert threads_of(sharers) == threads


def test_the_examples_in_the_docstring_hold() -> None:
    assert doctest.testmod(thread_shares).failed == 0


ANY = st.builds(
    Sharer,
    cpus=st.frozensets(st.integers(0, 11), min_size=1),
    cpu_millis=st.sampled_from([0, 0, 500, 1000, 2500, 4000]),
    processes=st.integers(1, 4),
)


@given(st.lists(ANY, min_size=1, max_size=6))
def test_never_more_threads_than_cpus_unless_everybody_has_one(sharers: list[Sharer]) -> None:
    # What the brain admits: requests that the CPUs can carry.
    asked_millis = sum(one.cpu_millis for one in sharers)
    assume(asked_millis <= 1000 * min(len(one.cpus) for one in sharers))
    threads = threads_of(sharers)
    assert all(count >= 1 for count in threads)
    available = len(frozenset().union(*(one.cpus for one in sharers)))
    beyond_one = [
        count * one.processes for one, count in zip(sharers, threads, strict=True) if count > 1
    ]
    assert sum(beyond_one) <= available


@given(ANY, st.integers(1, 6))
def test_equal_members_get_equal_threads(sharer: Sharer, count: int) -> None:
    assert len(set(threads_of([sharer] * count))) == 1


@given(st.lists(ANY, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(sharers: list[Sharer], random: object) -> None:
    order = list(range(len(sharers)))
    random.shuffle(order)  # type: ignore[attr-defined]
    threads = threads_of(sharers)
    assert threads_of([sharers[place] for place in order]) == [threads[place] for place in order]
