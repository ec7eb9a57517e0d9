"""Jobs that arrive one after the other: what the queue decides about each, told in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mooring.brain.queue.admit import decide
from mooring.brain.queue.apply import apply
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


@dataclass(frozen=True)
class Outcome:
    """`story` is every decision in its order, save for waits that a later round repeats."""

    story: tuple[Decision, ...]
    running: tuple[RunningGang, ...]
    waiting: tuple[Wait, ...]


def arrive(
    gangs: Sequence[QueuedGang],
    cluster: Planner,
    capacity: Resources,
    pools: Sequence[PoolSpec] = (),
) -> Outcome:
    """Let the gangs arrive in their order, with a round of the queue after each."""
    state = QueueState(capacity=capacity, pools=tuple(pools))
    story: list[Decision] = []
    for gang in gangs:
        state = replace(state, waiting=(*state.waiting, gang))
        for decision in decide(state, cluster, gang.arrived_s):
            if not isinstance(decision, Wait):
                state = apply(state, decision, cluster, gang.arrived_s)
            if not isinstance(decision, Wait) or decision.job == gang.job:
                story.append(decision)
    # One more look: who was sent away in the last round has not been told why it waits.
    now_s = gangs[-1].arrived_s if gangs else 0.0
    last = decide(state, cluster, now_s)
    return Outcome(tuple(story), state.running, tuple(d for d in last if isinstance(d, Wait)))
