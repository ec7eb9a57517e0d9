"""When the checks of distant memory and distant network cards speak."""

from __future__ import annotations

from typing import Any

import pytest
from building import JOB, check_run, member, run

from mooring.doctor.facts import CardTraffic, CpuPlace
from mooring.doctor.read_places import read_cells, read_nics
from mooring.doctor.registry import Unknown
from mooring.wire.samples import Sample

MIB = 1 << 20
#: Two cells of two CPUs.
CELLS = tuple(CpuPlace(cpu, cpu // 2, cpu // 2) for cpu in range(4))


@pytest.mark.parametrize(
    ("cells", "changes", "share"),
    [
        # Threads on cell 0 (CPUs 0 and 1), MiB on cells 0 and 1.
        ((1000, 0), {}, None),
        # 190 of 1000; 200 of 1000.
        ((810, 190), {}, None),
        ((800, 200), {}, "20 %"),
        ((0, 1000), {}, "100 %"),
        # A half, but of what caches hold.
        ((60, 60), {}, None),
        # It runs on both cells: nothing is far from all of its threads.
        ((500, 500), {"seen_cpus": {0: 5, 2: 5}, "allowed_cpus": frozenset(range(4))}, None),
        # It may run on both, and does so on one.
        ((500, 500), {"allowed_cpus": frozenset(range(4))}, "50 %"),
        # Moved since: what was seen on CPUs that it has no more does not count.
        ((1000, 0), {"seen_cpus": {0: 50, 2: 5}, "allowed_cpus": frozenset({2, 3})}, "100 %"),
        # Never seen running: where it may run.
        ((0, 1000), {"seen_cpus": {}}, "100 %"),
    ],
)
def test_memory_on_other_cells(
    cells: tuple[int, int], changes: dict[str, Any], share: str | None
) -> None:
    memory = {cell: amount * MIB for cell, amount in enumerate(cells)}
    facts = run(member("worker-0", memory_cells=memory, **changes), topology=CELLS)
    found = check_run("mem-remote", facts)
    assert bool(found) is (share is not None)
    if found:
        assert f"worker-0: {share} of its memory" in found[0].says
        assert [str(one) for one in found[0].remedy.changes] == ["spec.pinning: exclusive"]


@pytest.mark.parametrize("fractions", [True, False])
def test_what_the_job_cannot_carry_is_a_command(fractions: bool) -> None:
    """CPUs of its own already, or parts of CPUs."""
    job = JOB.replace("cpu: 1", "cpu: 1.5") if fractions else JOB
    one = member("worker-0", memory_cells={1: 500 * MIB}, exclusive=not fractions)
    [found] = check_run("mem-remote", run(one, job=job, topology=CELLS))
    assert not found.remedy.changes
    assert "numactl --cpunodebind=0 --preferred=0" in found.remedy.code


def test_without_a_second_cell_or_a_look_there_is_no_answer() -> None:
    with pytest.raises(Unknown, match="one NUMA cell"):
        check_run("mem-remote", run(member("worker-0", memory_cells={0: 500 * MIB})))
    with pytest.raises(Unknown, match="looked"):
        check_run("mem-remote", run(member("worker-0"), topology=CELLS))


def test_the_last_look_counts() -> None:
    cells: list[dict[str, int]] = [{}, {"0": 1}, {"0": 2, "1": 3, "x": 4}, {}]
    assert read_cells([Sample(1.0, cells=each) for each in cells]) == {0: 2, 1: 3}
    assert read_cells([Sample(1.0)]) == {}


@pytest.mark.parametrize(
    ("card", "found"),
    [
        # The member computes on cell 0.
        (CardTraffic("eth0", 0, 5000.0, 5000.0), False),
        (CardTraffic("eth0", 1, 0.0, 199.0), False),
        (CardTraffic("eth0", 1, 0.0, 200.0), True),
        (CardTraffic("eth0", 1, 200.0, 0.0), True),
    ],
)
def test_a_network_card_on_another_cell(card: CardTraffic, found: bool) -> None:
    near = CardTraffic("eth1", 0, 9000.0, 0.0)
    answer = check_run("nic-far", run(member("ps-0", nics=(near, card)), topology=CELLS))
    assert bool(answer) is found
    if answer:
        assert answer[0].says.endswith("talks through eth0 on cell 1")
        assert "--cpunodebind=1" in answer[0].remedy.code


def test_without_a_second_cell_or_a_card_there_is_no_answer_about_networks() -> None:
    with pytest.raises(Unknown, match="one NUMA cell"):
        check_run("nic-far", run(member("ps-0", nics=(CardTraffic("eth0", 1, 900.0, 0.0),))))
    with pytest.raises(Unknown, match="no network card"):
        check_run("nic-far", run(member("ps-0"), topology=CELLS))


def test_rates_of_a_card_between_the_first_and_the_last_look() -> None:
    samples = [
        Sample(10.0),
        Sample(11.0, nics={"eth0": (1, 1_000_000, 0)}),
        Sample(12.0, nics={"eth0": (1, 2_000_000, 0)}),
        # Seen for the first time in the last one.
        Sample(15.0, nics={"eth0": (1, 3_000_000, 8_000_000), "eth1": (0, 0, 500_000)}),
    ]
    # 2 MB in 4 s are 4 Mbit/s, 8 MB are 16; half a MB is 1.
    assert list(read_nics(samples)) == [
        CardTraffic("eth0", 1, 16.0, 4.0),
        CardTraffic("eth1", 0, 1.0, 0.0),
    ]
    assert list(read_nics(samples[:2])) == []
