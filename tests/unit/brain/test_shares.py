"""Shares of GPUs: packed onto shared cards, never beyond a card, never beside a whole one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from clusters import by_node, gang, members, node, nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import ClusterState, place
from mooring.brain.changes import changes
from mooring.brain.queue import QueuedGang, arrive
from mooring.model.cluster import CpuManager, Gpu, KubeletPolicy, Node, NodeUse, Snapshot
from mooring.model.member import Gang, Member, Pinning
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources


def sharers(role: str, count: int, millis: int, cpu: float = 1, **more: object) -> list[Member]:
    return [
        replace(member, resources=replace(member.resources, gpu_share_millis=millis))
        for member in members(role, count, cpu, **more)
    ]


def cards(plan: Plan | Refusal) -> list[tuple[str, tuple[int, ...], int]]:
    assert isinstance(plan, Plan), plan
    slots = [placement.slot for placement in plan.placements]
    return [(slot.node, slot.gpus, slot.gpu_share_millis) for slot in slots]


USE = {"n0": NodeUse(Resources(gpu_share_millis=1300), gpu_shares=((0, 500), (2, 800)))}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # 200 fill card 2 (200 left); card 0 (500 left) would keep 300
        ([200], [2]),
        ([300], [0]),
        ([500], [0]),
        # nothing shared has 600: a free card, the first
        ([600], [1]),
        # each after the other: 200 fill card 2, then card 0 has the room
        ([200, 200], [2, 0]),
        # big ones first: 400 on card 0 leaves 100, so 200 fill card 2
        ([400, 200], [0, 2]),
        # the third of 300 finds 500 - 300 = 200 left on card 0, and opens card 1
        ([300, 300], [0, 1]),
    ],
)
def test_best_fit_onto_shared_cards_then_a_free_one(asked: list[int], expected: list[int]) -> None:
    groups = [sharers(f"r{i}", 1, millis) for i, millis in enumerate(asked)]
    plan = place(gang("pack", *groups), Snapshot(nodes(1, gpus=4), USE))
    assert cards(plan) == [
        ("n0", (card,), millis) for card, millis in zip(expected, asked, strict=True)
    ]


def test_a_whole_card_is_never_a_shared_one() -> None:
    job = gang("pack", members("worker", 1, gpus=3))
    refusal = place(job, Snapshot(nodes(1, gpus=4), USE))
    assert isinstance(refusal, Refusal)
    assert refusal.verdicts[0].reasons == ("insufficient gpu (has 2 free)",)
    two = place(gang("pack", members("worker", 1, gpus=2)), Snapshot(nodes(1, gpus=4), USE))
    assert cards(two) == [("n0", (1, 3), 0)]


def test_a_share_that_fits_on_no_card() -> None:
    use = {"n0": NodeUse(Resources(gpu_share_millis=1300), gpu_shares=((0, 500), (1, 800)))}
    job = gang("pack", sharers("worker", 1, 600))
    refusal = place(job, Snapshot(nodes(1, gpus=2), use))
    assert isinstance(refusal, Refusal)
    assert refusal.verdicts[0].reasons == ("insufficient gpu (has 0.5 of a card free)",)
    assert "needs 1 cpu, 0.6 gpu" in refusal.sentence
    assert "roles.worker.resources.gpu: 0.5 instead of 0.6" in changes(
        job, Snapshot(nodes(1, gpus=2), use)
    )


def test_shares_go_to_the_node_with_a_shared_card() -> None:
    # n1 has a card with 500 left: n0 keeps both of its cards whole
    use = {"n1": NodeUse(Resources(gpu_share_millis=500), gpu_shares=((1, 500),))}
    plan = place(gang("pack", sharers("worker", 2, 250)), Snapshot(nodes(2, gpus=2), use))
    assert cards(plan) == [("n1", (1,), 250)] * 2


def test_a_gang_fills_card_after_card() -> None:
    # 3 of 300 a card: 7 members need 3 cards
    plan = place(gang("pack", sharers("worker", 7, 300, cpu=0.1)), Snapshot(nodes(1, gpus=4)))
    held = Counter(gpus for _, gpus, _ in cards(plan))
    assert held == {(0,): 3, (1,): 3, (2,): 1}


def test_cpus_are_near_the_card() -> None:
    machine = node("n0", 8, cells=2, gpus=2)
    job = gang("pack", sharers("worker", 4, 500, cpu=2, pinning=Pinning.EXCLUSIVE))
    plan = place(job, Snapshot((machine,)))
    assert isinstance(plan, Plan)
    for placement in plan.placements:
        assert placement.slot.cells == (machine.gpus[placement.slot.gpus[0]].cell,)


def test_broken_cards_are_not_shared() -> None:
    broken = (Gpu(0, 0, healthy=False), Gpu(1, 0))
    use = {"n0": NodeUse(Resources(gpu_share_millis=100), gpu_shares=((0, 100),))}
    plan = place(gang("pack", sharers("worker", 2, 500)), Snapshot((node("n0", gpus=broken),), use))
    assert cards(plan) == [("n0", (1,), 500)] * 2


STATIC = KubeletPolicy(CpuManager.STATIC)


def test_the_kubelet_has_its_say_about_shares_too() -> None:
    machine = node("n0", 8, cells=2, gpus=2, kubelet=STATIC)
    refusal = place(gang("pack", sharers("worker", 1, 500)), Snapshot((machine,)))
    assert isinstance(refusal, Refusal)
    assert "would lose its GPUs" in refusal.verdicts[0].reasons[0]
    job = gang("pack", sharers("worker", 2, 500, cpu=2, pinning=Pinning.EXCLUSIVE))
    assert cards(place(job, Snapshot((machine,)))) == [("n0", (0,), 500)] * 2


def test_pools_and_quotas_count_thousandths() -> None:
    # a cluster of one card: two of 400 run, the third waits for 0.4 of which 0.2 are free
    jobs = [
        QueuedGang(
            replace(gang("pack", sharers("worker", 1, 400)), job=f"job-{i}"), arrived_s=float(i)
        )
        for i in range(3)
    ]
    snapshot = Snapshot(nodes(1, gpus=1))
    outcome = arrive(jobs, ClusterState(snapshot), Resources(8000, 64 << 30, 1), ())
    assert [running.job for running in outcome.running] == ["job-0", "job-1"]
    (wait,) = outcome.waiting
    assert wait.sentence == (
        "job-2 waits for 1 cpu, 0.4 gpu in pool default: the cluster has 0.2 of its 1 gpu free."
    )


@st.composite
def small_gangs(draw: st.DrawFn, number: int) -> Gang:
    groups = []
    for role in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, 3))
        if draw(st.booleans()):
            groups.append(sharers(f"r{role}", count, draw(st.integers(1, 999)), cpu=0.5))
        else:
            groups.append(list(members(f"r{role}", count, 0.5, gpus=draw(st.integers(1, 2)))))
    preset = draw(st.sampled_from(["pack", "spread"]))
    return replace(gang(preset, *groups), job=f"job-{number}")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_card_is_given_twice(data: st.DataObject) -> None:
    cluster: tuple[Node, ...] = nodes(2, gpus=3)
    state = ClusterState(Snapshot(cluster))
    empty = state.copy()
    for number in range(data.draw(st.integers(1, 8))):
        if state.held and data.draw(st.integers(0, 3)) == 0:
            state.release(data.draw(st.sampled_from(sorted(state.held))))
            continue
        job = data.draw(small_gangs(number))
        plan = state.place(job)
        assert state.place(job) == plan
        assert ClusterState(state.snapshot()).place(job) == plan
        if isinstance(plan, Plan):
            state.assume(job, plan)
        _judge(state)
    for name in list(state.held):
        state.release(name)
    assert state.same_as(empty)


def _judge(state: ClusterState) -> None:
    whole: Counter[tuple[str, int]] = Counter()
    shared: Counter[tuple[str, int]] = Counter()
    used: Counter[str] = Counter()
    for held, plan in state.held.values():
        asked = {member.id: member.resources for member in held.members}
        for placement in plan.placements:
            slot, ask = placement.slot, asked[placement.member]
            used[slot.node] += ask.gpu_millis
            assert slot.gpu_share_millis == ask.gpu_share_millis
            assert len(slot.gpus) == (1 if ask.gpu_share_millis else ask.gpus)
            for card in slot.gpus:
                if slot.gpu_share_millis:
                    shared[slot.node, card] += slot.gpu_share_millis
                else:
                    whole[slot.node, card] += 1
    assert all(count == 1 for count in whole.values())
    assert all(millis <= 1000 for millis in shared.values())
    assert not whole.keys() & shared.keys()
    for machine in state.nodes:
        use = state.use(machine.name)
        assert use.resources.gpu_millis == used[machine.name]
        assert dict(use.gpu_shares) == {
            card: millis for (name, card), millis in shared.items() if name == machine.name
        }
        assert state.free(machine.name).gpu_millis == 3000 - used[machine.name]


def test_spreading_is_still_possible() -> None:
    plan = place(gang("spread", sharers("worker", 2, 300)), Snapshot(nodes(2, gpus=1)))
    assert by_node(plan) == {"n0": ["worker-0", "worker-1"]}
