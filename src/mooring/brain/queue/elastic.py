"""Gangs that may run with fewer members: how small, how large, and who stays.

Members that run never move: growing places only the additional ones, shrinking stops those that
were added last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mooring.brain.presets import recipe_for
from mooring.brain.queue.round_state import Block, Cause, RoundState
from mooring.brain.queue.types import QueuedGang, RunningGang
from mooring.model.member import Gang, MemberId, Relation, Rule
from mooring.model.plan import Placement, Plan, Refusal


def largest(low: int, high: int, fits: Callable[[int], bool]) -> int | None:
    """The largest size in low..high that fits, supposing that every smaller one fits then too."""
    best = None
    while low <= high:
        middle = (low + high + 1) // 2
        if fits(middle):
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best


def as_many_as_fit(
    queued: QueuedGang, place: Callable[[Gang], Plan | Refusal]
) -> tuple[Gang, Plan | Refusal]:
    """The gang at the largest size that has a plan, or at its least with the refusal."""
    if queued.least == queued.most or not queued.gang.all_or_nothing:
        return queued.gang, place(queued.gang)
    found: dict[int, tuple[Gang, Plan | Refusal]] = {}

    def fits(size: int) -> bool:
        gang, _ = queued.sized(size)
        found[size] = gang, place(gang)
        return isinstance(found[size][1], Plan)

    if fits(queued.most):
        return found[queued.most]
    size = largest(queued.least, queued.most - 1, fits)
    if size is None and queued.least not in found:
        fits(queued.least)
    return found[queued.least if size is None else size]


def shrunk(running: RunningGang, size: int) -> RunningGang | None:
    """The same gang with fewer members; None if its rules forbid to lose these."""
    gang, _ = running.queued.sized(size)
    kept = {member.id for member in gang.members}
    placed = tuple(p for p in running.plan.placements if p.member in kept)
    plan = _with(running, placed)
    return replace(running, plan=plan) if _rules_hold(gang, plan) else None


def grown(round_state: RoundState, running: RunningGang, size: int) -> RunningGang | Block:
    gang, ask = running.queued.sized(size)
    had = running.charge
    more = (ask[0] - had[0], ask[1] - had[1], ask[2] - had[2])
    block = round_state.quota(running.queued, more)
    if block is not None:
        return block
    if not round_state.enough(more):
        return Block(Cause.AMOUNT)
    there = {placement.member: placement for placement in running.plan.placements}
    extra = tuple(member for member in gang.members if member.id not in there)
    answer = round_state.planner.place(replace(gang, members=extra))
    if isinstance(answer, Refusal) or answer.waiting:
        return Block(Cause.PLACE, answer.sentence if isinstance(answer, Refusal) else "")
    there.update((placement.member, placement) for placement in answer.placements)
    plan = _with(running, tuple(there[member.id] for member in gang.members))
    if not _rules_hold(gang, plan):
        return Block(Cause.PLACE, "its rules do not allow the places that are free")
    return replace(running, plan=plan)


def _with(running: RunningGang, placed: tuple[Placement, ...]) -> Plan:
    there = {placement.member for placement in placed}
    asked = running.queued.gang.members
    waiting = tuple(member.id for member in asked if member.id not in there)
    return replace(running.plan, placements=placed, waiting=waiting)


def _rules_hold(gang: Gang, plan: Plan) -> bool:
    """The planner saw only a part of the gang, so what concerns all of it is checked here."""
    nodes = {placement.member: placement.slot.node for placement in plan.placements}
    return all(_holds(rule, gang, nodes) for rule in recipe_for(gang).required)


def _holds(rule: Rule, gang: Gang, nodes: Mapping[MemberId, str]) -> bool:
    apart = rule.relation is Relation.APART
    for member in gang.members:
        if member.id.role not in rule.roles:
            continue
        beside = any(
            other.id != member.id and nodes[other.id] == nodes[member.id]
            for other in gang.members
            if other.id.role in rule.others
        )
        if beside if apart else not beside and member.id.role not in rule.others:
            return False
    return True
