"""When the checks of a machine or container speak."""

from __future__ import annotations

import pytest
from building import check_node, node

from mooring.doctor.facts import CpuClock, NodeFacts
from mooring.doctor.registry import Unknown

ALL_80 = frozenset(range(80))
GIB = 1 << 30
MIB = 1 << 20


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (node(), False),
        # The seeds' container: 80 CPUs online and allowed, 12 of them by quota.
        (node(online_cpus=80, allowed_cpus=ALL_80, quota_millis=12_000), True),
        (node(online_cpus=80, allowed_cpus=frozenset(range(12))), True),
        (node(online_cpus=80, allowed_cpus=ALL_80, quota_millis=48_000), False),
        (
            node(
                online_cpus=80,
                allowed_cpus=ALL_80,
                quota_millis=2_000,
                thread_env={"OMP_NUM_THREADS": "2"},
            ),
            False,
        ),
        # Two CPUs: 3 threads are not yet twice as many, 4 are, however they are written.
        (node(thread_env={"OMP_NUM_THREADS": "3"}), False),
        (node(thread_env={"OMP_NUM_THREADS": "4"}), True),
        (node(thread_env={"OMP_NUM_THREADS": " 4,2"}), True),
        # No number: the CPUs count.
        (node(thread_env={"OMP_NUM_THREADS": "many"}), False),
        (node(thread_env={"MKL_NUM_THREADS": "80"}), False),
    ],
)
def test_threads_that_libraries_would_start(facts: NodeFacts, found: bool) -> None:
    assert bool(check_node("node-threads", facts)) is found


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (node(online_cpus=20, allowed_cpus=frozenset(range(20)), quota_millis=2000), "policy is n"),
        (node(online_cpus=20, allowed_cpus=frozenset(range(16)), quota_millis=2000), "shared CPUs"),
        (node(online_cpus=20, allowed_cpus=frozenset(range(20)), quota_millis=1500), "only whole"),
        (node(online_cpus=20, allowed_cpus=frozenset({3, 4}), quota_millis=2000), ""),
        (node(online_cpus=2, quota_millis=2000), ""),
    ],
)
def test_a_quota_without_cpus_of_its_own(facts: NodeFacts, says: str) -> None:
    found = check_node("node-not-pinned", facts)
    assert bool(found) is bool(says)
    if found:
        assert says in found[0].says.replace("cpuManagerPolicy is none", "policy is none")


def test_without_a_quota_pinning_cannot_be_told() -> None:
    with pytest.raises(Unknown):
        check_node("node-not-pinned", node())


@pytest.mark.parametrize(
    ("size", "used", "found"),
    [
        (8 * GIB, 0, False),
        (64 * MIB, 0, True),
        (65 * MIB, 0, False),
        # 90 of 100
        (8 * GIB, 7.21 * GIB, True),
        (8 * GIB, 7 * GIB, False),
    ],
)
def test_shared_memory(size: int, used: float, found: bool) -> None:
    facts = node(shm_bytes=size, shm_used_bytes=int(used))
    assert bool(check_node("node-shm", facts)) is found


@pytest.mark.parametrize(("used", "found"), [(89, False), (90, True)])
def test_memory_against_its_limit(used: int, found: bool) -> None:
    facts = node(memory_limit_bytes=100 * MIB, memory_used_bytes=used * MIB)
    assert bool(check_node("node-memory", facts)) is found


@pytest.mark.parametrize(
    ("governor", "mhz", "found"),
    [
        ("powersave", 800.0, True),
        # 2450 / 3500 = 0.7
        ("powersave", 2450.0, False),
        ("performance", 800.0, False),
    ],
)
def test_the_clock(governor: str, mhz: float, found: bool) -> None:
    clocks = tuple(CpuClock(cpu, governor, mhz, 3500.0) for cpu in range(4))
    assert bool(check_node("node-clock", node(clocks=clocks))) is found
