"""Cutting a machine into virtual nodes, ports, and what other runs hold."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mooring.backends.local import virtual
from mooring.backends.local.machine import this_machine
from mooring.backends.local.nodes import held_by_others, local_snapshot
from mooring.backends.local.ports import FIRST_PORT, LAST_PORT, MachinePorts, PrivatePorts
from mooring.model.cluster import Cpu, Gpu, Node
from mooring.model.errors import BadInput, RunFailed
from mooring.model.member import Gang, Member, MemberId, Preset
from mooring.model.plan import Placement, Plan, Slot
from mooring.model.resources import Resources
from mooring.record import create_run
from mooring.record.plan_file import write_plan


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path / "home"))


# Two sockets of four cores; SMT siblings are i and i + 8, as Linux numbers them.
MACHINE = Node(
    name="big",
    cpus=tuple(
        Cpu(id=i, core=i % 8, l3=i % 8 // 4, cell=i % 8 // 4, socket=i % 8 // 4) for i in range(16)
    ),
    cpu_millis=16000,
    memory_bytes=64 << 30,
    gpus=(Gpu(0, 0), Gpu(1, 0), Gpu(2, 1), Gpu(3, 1)),
)


def test_two_nodes_are_the_two_sockets() -> None:
    first, second = virtual.cut(MACHINE, 2, 100, 16000)
    # Socket 0 has cores 0-3: CPUs 0-3 and their siblings 8-11.
    assert [cpu.id for cpu in first.cpus] == [0, 1, 2, 3, 8, 9, 10, 11]
    assert [cpu.id for cpu in second.cpus] == [4, 5, 6, 7, 12, 13, 14, 15]
    assert (first.cpu_millis, first.memory_bytes, first.nic_mbps) == (8000, 32 << 30, 100)
    assert [gpu.index for gpu in first.gpus] == [0, 1]
    assert [gpu.index for gpu in second.gpus] == [2, 3]


def test_nodes_have_all_cpus_once() -> None:
    for count in range(1, 17):
        nodes = virtual.cut(MACHINE, count, None, 16000)
        ids = [cpu.id for node in nodes for cpu in node.cpus]
        assert sorted(ids) == list(range(16))


def test_more_nodes_than_cpus_share_them() -> None:
    nodes = virtual.cut(MACHINE, 32, None, 16000)
    # 16000 / 32 = 500: each has half a CPU of a whole one that it shares with another.
    assert {node.cpu_millis for node in nodes} == {500}
    assert {len(node.cpus) for node in nodes} == {1}
    assert all(node.labels == virtual.OVERLAPPING for node in nodes)


@pytest.mark.parametrize("count", [0, -1, 251])
def test_a_count_out_of_range_is_bad_input(count: int) -> None:
    with pytest.raises(BadInput, match="--nodes"):
        virtual.cut(MACHINE, count, None, 16000)


def test_this_machine_has_the_cpus_that_we_may_use() -> None:
    machine = this_machine()
    assert {cpu.id for cpu in machine.cpus} == set(os.sched_getaffinity(0))
    assert machine.memory_bytes > 1 << 28


def test_reserved_ports_are_free_distinct_and_below_the_ephemeral_range() -> None:
    first, second = MachinePorts(), MachinePorts()
    ports = [first.take() for _ in range(20)] + [second.take() for _ in range(20)]
    assert len(set(ports)) == 40
    assert all(FIRST_PORT <= port < LAST_PORT for port in ports)
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass
    first.close()
    second.close()


def test_a_port_that_is_taken_is_refused_by_the_name_of_who_wants_it() -> None:
    ports, others = MachinePorts(), MachinePorts()
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        with pytest.raises(RunFailed, match=f"spec.x: port {taken} is in use"):
            ports.take_fixed(taken, "spec.x")
    reserved = others.take()
    with pytest.raises(RunFailed, match="another run"):
        ports.take_fixed(reserved, "spec.x")
    others.close()
    assert ports.take_fixed(reserved, "spec.x") == reserved
    with pytest.raises(RunFailed, match="two members"):
        ports.take_fixed(reserved, "spec.y")
    ports.close()


def test_private_ports_keep_clear_of_fixed_ones() -> None:
    ports = PrivatePorts()
    ports.reserve([2223, 0])
    assert [ports.take() for _ in range(3)] == [2222, 2224, 2225]


def test_what_a_live_run_holds_is_taken_from_the_machine() -> None:
    run = create_run("other", directory=None, virtual_nodes=0, source="", version="0")
    asks = Resources(1000, 1 << 30)
    one, two = MemberId("worker", 0), MemberId("worker", 1)
    gang = Gang("other", (Member(one, "other", asks), Member(two, "other", asks)), Preset.SPREAD)
    plan = Plan(
        "other",
        (Placement(one, Slot("n", (1,), exclusive=True)), Placement(two, Slot("n", (0,)))),
    )
    write_plan(run.plan_file, gang, plan)
    held = held_by_others(None)
    assert (held.resources, held.cpus, held.sharers) == (Resources(2000, 2 << 30), {1}, 1)
    assert held_by_others(run.info.id).resources == Resources()


def test_shares_of_a_card_add_up() -> None:
    run = create_run("job", directory=None, virtual_nodes=0, source="", version="0")
    ids = [MemberId("worker", index) for index in range(2)]
    ask = Resources(gpu_share_millis=300)
    gang = Gang("job", tuple(Member(one, "job", ask) for one in ids), Preset.SPREAD)
    slot = Slot("n", (0,), gpus=(2,), gpu_share_millis=300)
    plan = Plan("job", tuple(Placement(one, slot) for one in ids))
    write_plan(run.plan_file, gang, plan)
    held = held_by_others(None)
    assert (held.gpus, held.gpu_shares) == (frozenset(), ((2, 600),))
    assert held.resources == Resources(gpu_share_millis=600)
    snapshot = local_snapshot(0, None)
    assert snapshot.use_of(snapshot.nodes[0].name) == held
