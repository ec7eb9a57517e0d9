"""Carrying a decision out on a cluster and on the state: what every caller has to do alike."""

from __future__ import annotations

from dataclasses import replace

from mooring.brain.queue import elastic
from mooring.brain.queue.types import (
    Admit,
    Decision,
    Grow,
    Planner,
    Preempt,
    QueueState,
    RunningGang,
    Shrink,
    Wait,
)


def apply(state: QueueState, decision: Decision, cluster: Planner, now_s: float) -> QueueState:
    """Changes `cluster`; gives the state after it. Decisions are applied in their order."""
    match decision:
        case Admit(job, plan):
            queued = next(each for each in state.waiting if each.job == job)
            running = RunningGang(queued, plan, now_s)
            cluster.assume(running.gang, plan)
            waiting = tuple(each for each in state.waiting if each.job != job)
            return replace(state, waiting=waiting, running=(*state.running, running))
        case Preempt(job):
            victim = _running(state, job)
            cluster.release(job)
            running_now = tuple(each for each in state.running if each.job != job)
            return replace(state, waiting=(*state.waiting, victim.queued), running=running_now)
        case Shrink(job, members):
            before = _running(state, job)
            after = elastic.shrunk(before, before.size - len(members))
            if after is None:
                raise ValueError(f"{job} cannot lose {', '.join(map(str, members))}")
            return _resize(state, after, cluster)
        case Grow(job, plan):
            return _resize(state, replace(_running(state, job), plan=plan), cluster)
        case Wait():
            return state


def ended(state: QueueState, job: str, cluster: Planner) -> QueueState:
    """A running gang has ended: all that it held or had borrowed returns."""
    cluster.release(job)
    return replace(state, running=tuple(each for each in state.running if each.job != job))


def _running(state: QueueState, job: str) -> RunningGang:
    return next(each for each in state.running if each.job == job)


def _resize(state: QueueState, after: RunningGang, cluster: Planner) -> QueueState:
    cluster.release(after.job)
    cluster.assume(after.gang, after.plan)
    running = tuple(after if each.job == after.job else each for each in state.running)
    return replace(state, running=running)
