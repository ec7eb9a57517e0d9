"""The queue on the real planner: exclusive CPUs, cells, memory and devices together.

What each member holds is checked here from the plans alone, not from the planner's own books.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest
from tape import Tape, traces

from mooring.brain.queue import PoolSpec, QueuedGang, QueueState, Wait, apply, decide, ended
from mooring.brain.state import ClusterState
from mooring.model.cluster import Cpu, Gpu, Node, Snapshot
from mooring.model.member import Duty, Gang, Member, MemberId, Pinning, Preset
from mooring.model.resources import Resources

GIB = 1 << 30
POOLS = ("a", "b")


def _node(name: str, gpus: int) -> Node:
    """Two cells of 4 CPUs, and the devices divided between them."""
    cpus = tuple(Cpu(i, i // 2, i // 4, i // 4, i // 4) for i in range(8))
    devices = tuple(Gpu(i, 2 * i // gpus) for i in range(gpus))
    return Node(name, cpus, 8000, 32 * GIB, devices)


def _gang(tape: Tape, name: str, now_s: float) -> QueuedGang:
    pinning = tape.one_of((Pinning.SHARED, Pinning.EXCLUSIVE))
    each = Resources(1000 * (1 + tape.number(4)), 4 * GIB * tape.number(3), tape.number(3))
    members = [
        Member(MemberId("worker", i), name, each, pinning) for i in range(1 + tape.number(5))
    ]
    members += [Member(MemberId("ps", i), name, Resources(1000)) for i in range(tape.number(2))]
    preset = tape.one_of((Preset.SPREAD, Preset.PACK, Preset.ISOLATE))
    return QueuedGang(
        Gang(name, tuple(members), preset, (("ps", Duty.SERVES),)),
        tape.one_of((0, 0, 5)),
        tape.one_of(POOLS),
        now_s,
        min_available=tape.one_of((None, None, 2)),
        expected_s=tape.one_of((None, 5.0, 50.0)),
    )


def _check(state: QueueState, cluster: ClusterState) -> None:
    nodes = {node.name: node for node in cluster.nodes}
    cpu, memory = Counter[str](), Counter[str]()
    own: set[tuple[str, str, int]] = set()
    use = dict.fromkeys(POOLS, 0)
    assert set(cluster.held) == {each.job for each in state.running}
    for each in state.running:
        assert each.size >= each.queued.least
        use[each.pool] += each.charge[2]
        for member in each.gang.members:
            slot = each.plan.slot_of(member.id)
            exclusive = member.pinning is Pinning.EXCLUSIVE
            cpu[slot.node] += member.resources.cpu_millis
            memory[slot.node] += member.resources.memory_bytes
            held = [("gpu", i) for i in slot.gpus]
            held += [("cpu", i) for i in slot.cpus] if exclusive else []
            assert len(slot.gpus) == member.resources.gpus
            assert not exclusive or 1000 * len(slot.cpus) == member.resources.cpu_millis
            for kind, number in held:
                assert (slot.node, kind, number) not in own
                own.add((slot.node, kind, number))
    for name, node in nodes.items():
        assert cpu[name] <= node.cpu_millis and memory[name] <= node.memory_bytes
    for spec in state.pools:
        assert spec.cap is None or use[spec.name] <= spec.cap.gpu_millis


@pytest.mark.slow
@traces(250, 60)
def test_capacity_sets_and_quota_hold_at_every_instant(tape: Tape) -> None:
    nodes = tuple(_node(f"n{i}", 2) for i in range(1 + tape.number(3)))
    cluster = ClusterState(Snapshot(nodes))
    capacity = Resources(8000 * len(nodes), 32 * GIB * len(nodes), 2 * len(nodes))
    cap = Resources(gpus=1 + tape.number(4))
    pools = (PoolSpec("a", Resources(gpus=1), cap), PoolSpec("b", Resources(gpus=1)))
    state = QueueState(capacity, pools=pools if tape.number(2) else ())
    numbers = count()
    now_s = 0.0
    while tape.left:
        gangs = tuple(_gang(tape, f"j{next(numbers)}", now_s) for _ in range(1 + tape.number(2)))
        state = replace(state, waiting=state.waiting + gangs)
        kept = cluster.copy()
        decisions = decide(state, cluster, now_s)
        assert cluster.same_as(kept)
        assert decide(state, kept, now_s) == decisions
        for decision in decisions:
            state = apply(state, decision, cluster, now_s)
            _check(state, cluster)
        now_s += tape.one_of((1.0, 10.0))
        for _ in range(tape.number(3)):
            if state.running:
                state = ended(state, tape.one_of(state.running).job, cluster)
    while state.running:
        state = ended(state, state.running[0].job, cluster)
    assert cluster.same_as(ClusterState(Snapshot(nodes)))


def test_the_three_nodes_and_four_jobs_of_the_deadlock() -> None:
    # 3 x 4 = 12 devices, 4 jobs x 4 workers x 1 = 16.
    nodes = tuple(_node(f"n{i}", 4) for i in range(3))
    cluster = ClusterState(Snapshot(nodes))
    waiting = []
    for name in ("a", "b", "c", "d"):
        workers = tuple(
            Member(MemberId("worker", i), name, Resources(1000, GIB, 1)) for i in range(4)
        )
        waiting.append(QueuedGang(Gang(name, workers, Preset.SPREAD)))
    state = QueueState(Resources(24_000, 96 * GIB, 12), tuple(waiting))
    decisions = decide(state, cluster, 0.0)
    for decision in decisions:
        state = apply(state, decision, cluster, 0.0)
    assert [each.job for each in state.running] == ["a", "b", "c"]
    assert decisions[-1] == Wait(
        "d",
        "d waits for 4 cpu, 4Gi, 4 gpu in pool default: the cluster has 0 of its 12 gpu free.",
    )
    state = ended(state, "b", cluster)
    assert [each.job for each in decide(state, cluster, 1.0)] == ["d"]
