"""Jobs that arrive one after the other: what the queue decides about each, told in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mooring.brain.queue.admit import decide
from mooring.brain.queue.apply import apply
from mooring.brain.queue.groups import Groups, Move
from mooring.brain.queue.types import (
    Decision,
    Planner,
    PoolSpec,
    QueuedGang,
    QueueState,
    RunningGang,
    Wait,
)
from mooring.model.resources import Resources

#: What happens in a story: the queue's decisions, and groups of nodes that change hands.
Chapter = Decision | Move


@dataclass(frozen=True)
class ArrivalOutcome:
    """`story` is every decision in its order, save for waits that a later round repeats."""

    story: tuple[Chapter, ...]
    running: tuple[RunningGang, ...]
    waiting: tuple[Wait, ...]
    pools: tuple[PoolSpec, ...] = ()
    """With the groups of nodes that they have at the end."""


def arrive(
    gangs: Sequence[QueuedGang],
    cluster: Planner,
    capacity: Resources,
    pools: Sequence[PoolSpec] = (),
    groups: Groups = Groups(),  # noqa: B008 (frozen)
) -> ArrivalOutcome:
    """Let the gangs arrive in their order, with a round of the queue after each.

    Nobody ends. If groups may move, time goes on after the last arrival until none does.
    """
    tale = _Tale(cluster, QueueState(capacity, pools=groups.guarantees(pools)), pools, groups)
    for gang in gangs:
        tale.state = replace(tale.state, waiting=(*tale.state.waiting, gang))
        tale.round(gang.arrived_s, gang.job)
    now_s = gangs[-1].arrived_s if gangs else 0.0
    if groups.policy is not None:
        for _ in groups.groups:
            now_s += groups.policy.delay_s
            if not tale.round(now_s):
                break
    # One more look: who was sent away in the last round has not been told why it waits.
    last = decide(tale.state, cluster, now_s)
    waits = tuple(each for each in last if isinstance(each, Wait))
    return ArrivalOutcome(tuple(tale.story), tale.state.running, waits, tale.state.pools)


class _Tale:
    def __init__(
        self, cluster: Planner, state: QueueState, pools: Sequence[PoolSpec], groups: Groups
    ) -> None:
        self.cluster = cluster
        self.state = state
        self.pools = pools
        self.groups = groups
        self.story: list[Chapter] = []

    def round(self, now_s: float, newcomer: str = "") -> bool:
        """Did a group move?"""
        state = self.state
        self.groups, moves = self.groups.look(self.pools, state.waiting, state.running, now_s)
        self.state = replace(state, pools=self.groups.guarantees(self.pools))
        self.story += moves
        for decision in decide(self.state, self.cluster, now_s):
            if not isinstance(decision, Wait):
                self.state = apply(self.state, decision, self.cluster, now_s)
            if not isinstance(decision, Wait) or decision.job == newcomer:
                self.story.append(decision)
        return bool(moves)
