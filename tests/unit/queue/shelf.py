"""A small exact planner for the tests of the queue, and short ways to write gangs and states.

Members are put where they fit most tightly, the largest first. With sizes of which each divides
the next one this finds a place whenever there is one, so that a refusal in a test is the truth.
It objects to every assumption that takes what is not free: that is the check of capacity.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.brain.queue import (
    Admit,
    Decision,
    PoolSpec,
    Preempt,
    QueuedGang,
    QueueState,
    RunningGang,
    Shrink,
    apply,
)
from mooring.model.member import Gang, Member, MemberId, Preset
from mooring.model.plan import Placement, Plan, Refusal, Slot
from mooring.model.resources import Resources


class Shelf:
    def __init__(self, gpus: dict[str, int]) -> None:
        self.free = {name: set(range(count)) for name, count in gpus.items()}
        self.held: dict[str, tuple[Gang, Plan]] = {}

    def copy(self) -> Shelf:
        twin = Shelf({})
        twin.free = {name: set(free) for name, free in self.free.items()}
        twin.held = dict(self.held)
        return twin

    def place(self, gang: Gang) -> Plan | Refusal:
        free = {name: sorted(devices) for name, devices in self.free.items()}
        slots: dict[MemberId, Slot] = {}
        for member in sorted(gang.members, key=lambda m: -m.resources.gpus):
            want = member.resources.gpus
            fitting = [name for name in free if len(free[name]) >= want]
            if not fitting:
                left = len(gang.members) - len(slots)
                return Refusal(gang.job, f"{left} members have no node", member.id)
            best = min(fitting, key=lambda name: len(free[name]))
            slots[member.id] = Slot(best, (), gpus=tuple(free[best][:want]))
            free[best] = free[best][want:]
        placed = tuple(Placement(member.id, slots[member.id]) for member in gang.members)
        return Plan(gang.job, placed)

    def assume(self, gang: Gang, plan: Plan) -> None:
        assert gang.job not in self.held, f"{gang.job} is held already"
        assert [m.id for m in gang.members] == [p.member for p in plan.placements]
        for member, placement in zip(gang.members, plan.placements, strict=True):
            gpus = set(placement.slot.gpus)
            assert len(gpus) == member.resources.gpus
            assert gpus <= self.free[placement.slot.node], f"{placement} is not free"
            self.free[placement.slot.node] -= gpus
        self.held[gang.job] = (gang, plan)

    def release(self, job: str) -> None:
        _, plan = self.held.pop(job)
        for placement in plan.placements:
            self.free[placement.slot.node] |= set(placement.slot.gpus)

    def same(self, other: Shelf) -> bool:
        return self.free == other.free and self.held == other.held


def gpus(count: int) -> Resources:
    return Resources(gpus=count)


def queued(
    name: str,
    members: int = 1,
    each: int = 1,
    priority: int = 0,
    pool: str = "default",
    arrived_s: float = 0.0,
    *,
    preemptible: bool = True,
    least: int | None = None,
    expected_s: float | None = None,
) -> QueuedGang:
    workers = tuple(Member(MemberId("worker", i), name, gpus(each)) for i in range(members))
    gang = Gang(name, workers, Preset.SPREAD)
    return QueuedGang(gang, priority, pool, arrived_s, preemptible, least, expected_s)


def pool(name: str, own: int = 0, cap: int | None = None, weight: float = 1.0) -> PoolSpec:
    return PoolSpec(name, gpus(own), None if cap is None else gpus(cap), weight)


def cluster(nodes: int, each: int) -> tuple[Shelf, Resources]:
    return Shelf({f"n{i}": each for i in range(nodes)}), gpus(nodes * each)


def run(state: QueueState, shelf: Shelf, decisions: Sequence[Decision], now_s: float) -> QueueState:
    for decision in decisions:
        state = apply(state, decision, shelf, now_s)
    return state


def start(
    state: QueueState, shelf: Shelf, gang: QueuedGang, now_s: float, size: int | None = None
) -> QueueState:
    """As if it had been admitted earlier."""
    whole, _ = gang.sized(size or gang.most)
    plan = shelf.place(whole)
    assert isinstance(plan, Plan)
    shelf.assume(whole, plan)
    running = (*state.running, RunningGang(gang, plan, now_s))
    return QueueState(state.capacity, state.waiting, running, state.pools, state.policy)


def admitted(decisions: Sequence[Decision]) -> list[str]:
    return [each.job for each in decisions if isinstance(each, Admit)]


def yielding(decisions: Sequence[Decision]) -> list[str]:
    return [each.job for each in decisions if isinstance(each, Preempt | Shrink)]
