"""Every promise at once, on the real queue and the real planner, at every instant of 10,000 traces.

Members come with exclusive and shared CPUs, devices, presets and minimum sizes; nodes have two
cells, some with a kubelet that insists on one of them. What is checked is worked out here from the
plans alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest
from tape import Tape, traces

from mooring.brain.queue import Admit, PoolSpec, QueuedGang, QueueState, apply, decide, ended
from mooring.brain.state import ClusterState
from mooring.model.cluster import (
    Cpu,
    CpuManager,
    Gpu,
    KubeletPolicy,
    Node,
    Snapshot,
    TopologyManager,
)
from mooring.model.member import Duty, Gang, Member, MemberId, Pinning, Preset
from mooring.model.resources import Resources

pytestmark = pytest.mark.slow

GIB = 1 << 30
POOLS = ("a", "b")
CPUS, CELLS = 8, 2
STRICT = KubeletPolicy(CpuManager.STATIC, TopologyManager.SINGLE_NUMA_NODE)
RESERVED = frozenset({0})
#: Of each of four kinds.
TRACES = 2500


def _node(name: str, strict: bool) -> Node:
    """Two cells of 4 CPUs in cores of 2, a device in each; one CPU is the kubelet's own."""
    cpus = tuple(Cpu(i, i // 2, i // 4, i // 4, i // 4) for i in range(CPUS))
    kubelet = replace(STRICT, reserved_cpus=RESERVED) if strict else None
    kept = len(RESERVED) if kubelet is not None else 0
    devices = tuple(Gpu(i, i) for i in range(CELLS))
    return Node(name, cpus, 1000 * (CPUS - kept), 16 * GIB, devices, kubelet=kubelet)


def _gang(tape: Tape, name: str, now_s: float) -> QueuedGang:
    pinning = tape.one_of((Pinning.EXCLUSIVE, Pinning.SHARED))
    each = Resources(1000 * (1 + tape.number(5)), 4 * GIB * tape.number(3), tape.number(2))
    servers = tape.number(3)
    members = [
        Member(MemberId("worker", i), name, each, pinning) for i in range(1 + tape.number(4))
    ]
    members += [
        Member(MemberId("ps", i), name, Resources(1000, GIB), pinning) for i in range(servers)
    ]
    return QueuedGang(
        Gang(name, tuple(members), tape.one_of(tuple(Preset)), (("ps", Duty.SERVES),)),
        tape.one_of((0, 0, 9)),
        tape.one_of(POOLS),
        now_s,
        preemptible=bool(tape.number(4)),
        min_available=tape.one_of((None, None, servers + 1)),
        expected_s=tape.one_of((None, 5.0)),
    )


class Checker:
    def __init__(self, cluster: ClusterState) -> None:
        self.cluster = cluster
        self.nodes = {node.name: node for node in cluster.nodes}

    def capacity_and_sets(self, state: QueueState) -> None:
        cpu, memory, sharers = Counter[str](), Counter[str](), Counter[str]()
        own: set[tuple[str, str, int]] = set()
        taken = Counter[str]()
        for each in state.running:
            for member in each.gang.members:
                slot = each.plan.slot_of(member.id)
                exclusive = member.pinning is Pinning.EXCLUSIVE
                cpu[slot.node] += member.resources.cpu_millis
                memory[slot.node] += member.resources.memory_bytes
                sharers[slot.node] += not exclusive
                assert len(slot.gpus) == member.resources.gpus
                held = [("gpu", number) for number in slot.gpus]
                if exclusive:
                    assert 1000 * len(slot.cpus) == member.resources.cpu_millis
                    held += [("cpu", number) for number in slot.cpus]
                    taken[slot.node] += len(slot.cpus)
                for kind, number in held:
                    assert (slot.node, kind, number) not in own
                    own.add((slot.node, kind, number))
        for name, node in self.nodes.items():
            assert cpu[name] <= node.cpu_millis
            assert memory[name] <= node.memory_bytes
            assert not sharers[name] or taken[name] < CPUS

    def cells(self, state: QueueState) -> None:
        for each in state.running:
            for member in each.gang.members:
                slot = each.plan.slot_of(member.id)
                node = self.nodes[slot.node]
                assert set(slot.cells) == {cpu.cell for cpu in node.cpus if cpu.id in slot.cpus}
                if node.kubelet is not None and member.pinning is Pinning.EXCLUSIVE:
                    devices = {gpu.cell for gpu in node.gpus if gpu.index in slot.gpus}
                    assert len(set(slot.cells) | devices) == 1
                    assert not RESERVED & set(slot.cpus)

    def spans_only_if_it_must(self, state: QueueState, admitted: Admit) -> None:
        """A lone member with CPUs of its own is on one cell if a cell of its node has room."""
        first, *others = admitted.plan.placements
        if others or not first.slot.exclusive or len(first.slot.cells) == 1:
            return
        held = {
            cpu
            for each in state.running
            for placement in each.plan.placements
            if placement.slot.exclusive and placement.slot.node == first.slot.node
            for cpu in placement.slot.cpus
        }
        free = Counter(cpu.cell for cpu in self.nodes[first.slot.node].cpus if cpu.id not in held)
        assert max(free.values()) < len(first.slot.cpus)

    def gangs(self, state: QueueState) -> None:
        assert set(self.cluster.held) == {each.job for each in state.running}
        for each in state.running:
            assert each.size >= each.queued.least
            assert each.queued.min_available is not None or each.size == each.queued.most
            where = {placement.member: placement.slot.node for placement in each.plan.placements}
            servers = {node for member, node in where.items() if member.role == "ps"}
            workers = {node for member, node in where.items() if member.role == "worker"}
            if each.queued.gang.preset is Preset.ISOLATE:
                assert not servers & workers
            if each.queued.gang.preset is Preset.COLOCATE and servers:
                assert workers <= servers
            # What is placed already is planned as it is.
            assert self.cluster.place(each.gang) == each.plan

    def quota(self, state: QueueState) -> None:
        use, firm = dict.fromkeys(POOLS, 0), dict.fromkeys(POOLS, 0)
        for each in state.running:
            use[each.pool] += each.charge[2]
            firm[each.pool] += 0 if each.queued.preemptible else each.charge[2]
        own = {spec.name: spec.guaranteed.gpu_millis for spec in state.pools}
        for spec in state.pools:
            assert spec.cap is None or use[spec.name] <= spec.cap.gpu_millis
        if state.pools:
            assert sum(max(own[p], firm[p]) for p in POOLS) <= state.capacity.gpu_millis

    def all(self, state: QueueState) -> None:
        self.capacity_and_sets(state)
        self.cells(state)
        self.gangs(state)
        self.quota(state)


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "kubelet"])
@pytest.mark.parametrize("divided", [False, True], ids=["shared", "pools"])
@traces(TRACES, 31)
def test_every_promise_holds_at_every_instant(divided: bool, strict: bool, tape: Tape) -> None:
    """With a kubelet, the first node alone has none."""
    nodes = tuple(_node(f"n{i}", strict and i > 0) for i in range(1 + strict + tape.number(2)))
    cluster = ClusterState(Snapshot(nodes))
    checker = Checker(cluster)
    capacity = sum((node.capacity for node in nodes), Resources())
    pools = (
        PoolSpec("a", Resources(gpus=1), Resources(gpus=1 + tape.number(4))),
        PoolSpec("b", Resources(gpus=1)),
    )
    state = QueueState(capacity, pools=pools if divided else ())
    numbers, now_s = count(), 0.0
    # As costly as all the rest: an eighth of the traces is decided twice.
    twice = not tape.number(8)
    while tape.left:
        gangs = tuple(_gang(tape, f"j{next(numbers)}", now_s) for _ in range(1 + tape.number(2)))
        state = replace(state, waiting=state.waiting + gangs)
        decisions = decide(state, cluster, now_s, explain=False)
        assert not twice or decide(state, cluster, now_s, explain=False) == decisions
        for decision in decisions:
            if isinstance(decision, Admit):
                checker.spans_only_if_it_must(state, decision)
            state = apply(state, decision, cluster, now_s)
            checker.all(state)
        now_s += tape.one_of((1.0, 10.0))
        if state.running and tape.number(2):
            state = ended(state, tape.one_of(state.running).job, cluster)
            checker.all(state)


def test_there_are_ten_thousand_traces() -> None:
    assert 4 * TRACES >= 10_000
