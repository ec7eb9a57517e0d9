"""Deciding about a whole gang: the passes that are made, and the plan or the refusal."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mooring.brain import (
    exact,
    explain,
    filters,  # noqa: F401  importing registers the rules
    outlook,
    scores,  # noqa: F401
)
from mooring.brain.attempt import Attempt, Seat, attempt
from mooring.brain.board import Board
from mooring.brain.layout import ClusterLayout, Free
from mooring.brain.presets import Recipe, recipe_for
from mooring.brain.profile import Profile
from mooring.brain.traffic import Link, busiest
from mooring.brain.trials import RoleZone, Trial, cannot_fit, fewest_nodes, trials
from mooring.brain.want import Kinds, kinds_of
from mooring.model.member import Gang, Member, Pinning, Preset, Relation, Rule
from mooring.model.plan import Placement, Plan, Refusal, Slot

#: Members x nodes, summed over all passes: beyond it only the first few passes are made.
_MOST_STEPS = 150_000
_FEWEST_PASSES = 4
#: A preset that nobody asked for is not worth more.
_PASSES_OF_OTHERS = 2
_PASSES_FOR_ONE_NODE = 32


@dataclass(frozen=True)
class Decision:
    """What was decided, and the pass that it rests on. `named` is the position of a refusal."""

    outcome: Plan | Refusal
    kinds: Kinds
    recipe: Recipe
    best: Attempt
    named: int | None = None


def decide(gang: Gang, layout: ClusterLayout, free: Free, profile: Profile) -> Decision:
    """A gang that may start in part is refused only if a member could never be placed."""
    kinds = kinds_of(gang)
    recipe = recipe_for(gang, profile, layout)
    best = _best_attempt(gang, recipe, layout, free, kinds)
    if best.failed and (profile.scores or gang.traffic):
        # Weights say which of the plans is liked; they must not cost a gang its only one.
        unweighed = recipe_for(replace(gang, traffic=None), replace(profile, scores=()), layout)
        other = _best_attempt(gang, unweighed, layout, free, kinds)
        if not other.failed:
            recipe, best = unweighed, other
    if not best.failed:
        recipe, best = _least_busy(gang, profile, free, kinds, recipe, best)
        return Decision(plan_of(gang, best), kinds, recipe, best)
    hopeless = outlook.hopeless(gang, recipe, layout, (kinds[i] for i in best.failed))
    if not gang.all_or_nothing and not hopeless:
        return Decision(plan_of(gang, best), kinds, recipe, best)
    named = next((i for i in best.failed if kinds[i] in hopeless), next(iter(best.failed)))
    if kinds[named] in hopeless:
        remark = hopeless[kinds[named]]
    elif outlook.gang_never_fits(gang, recipe, layout, kinds):
        remark = explain.NOT_EVEN_EMPTY
    else:
        remark = ""
    member, counts = gang.members[named], best.failed[named]
    sentence = explain.refusal(member, counts, len(layout), len(best.where), len(kinds), remark)
    return Decision(Refusal(gang.job, sentence, member.id), kinds, recipe, best, named)


def _least_busy(
    gang: Gang, profile: Profile, free: Free, kinds: Kinds, recipe: Recipe, best: Attempt
) -> tuple[Recipe, Attempt]:
    """Where traffic is weighed and the gang is to be spread: this pass, or servers and
    workers side by side, or apart, whichever has the least busy NIC. Who asks for one of these or
    for few nodes has decided that; where nobody has, few nodes and a single one count too."""
    weighs = any(name == "traffic" and weight > 0 for name, weight in recipe.scores)
    spread = gang.preset in (Preset.SPREAD, Preset.SPREAD_PS)
    if gang.traffic is None or not weighs or not (spread or gang.preset_is_open):
        return recipe, best
    layout = best.board.layout
    least = _load(gang, best)
    for way, most_passes in _other_ways(gang, kinds):
        if not least:
            break
        other = recipe_for(way, profile, layout)
        probe = Board(gang, other, layout, free, kinds.roles)
        if most_passes > _PASSES_OF_OTHERS and fewest_nodes(probe, kinds) > 1:
            continue
        passes = trials(probe, kinds)
        for trial in itertools.islice(passes, most_passes):
            result = attempt(Board(gang, other, layout, free, kinds.roles), kinds, trial)
            if not result.failed:
                load = _load(gang, result)
                if load < least:
                    recipe, best, least = other, result, load
                break
    return recipe, best


def _other_ways(gang: Gang, kinds: Kinds) -> list[tuple[Gang, int]]:
    """Each with the passes that it is worth: one a node where all are to be on one."""
    ways = []
    if gang.preset_is_open:
        roles = gang.roles
        one_node = Rule(Relation.TOGETHER, roles, roles, required=True)
        ways.append((replace(gang, rules=(*gang.rules, one_node)), _PASSES_FOR_ONE_NODE))
        ways.append((replace(gang, preset=Preset.PACK), _PASSES_OF_OTHERS))
    if len(kinds.wants) > 1:
        presets = (Preset.COLOCATE, Preset.ISOLATE)
        ways += [(replace(gang, preset=one), _PASSES_OF_OTHERS) for one in presets]
    return ways


def _load(gang: Gang, result: Attempt) -> float:
    """Of the busiest NIC: seconds, or bytes if no speed is known."""
    link = _link(gang, result)
    if link is None:
        return 0.0
    return link.bytes_per_step if link.seconds_per_step is None else link.seconds_per_step


def _link(gang: Gang, result: Attempt) -> Link | None:
    if gang.traffic is None:
        return None
    positions = sorted(result.where)
    roles = [gang.members[position].id.role for position in positions]
    where = [result.where[position] for position in positions]
    return busiest(gang, roles, where, result.board.layout.nodes)


def _best_attempt(
    gang: Gang, recipe: Recipe, layout: ClusterLayout, free: Free, kinds: Kinds
) -> Attempt:
    """The first pass that places all, or of all passes the one on the fewest nodes."""
    fresh = partial(Board, gang, recipe, layout, free, kinds.roles)
    probe = fresh()
    passes = trials(probe, kinds)
    best = attempt(fresh(), kinds, next(passes))
    if not best.failed and not recipe.fewest_nodes:
        return best
    if best.failed and gang.all_or_nothing and cannot_fit(probe, kinds):
        return best  # the one pass shows who is left over, and why
    enough = fewest_nodes(probe, kinds) if recipe.fewest_nodes else 0
    cost = len(kinds) * len(layout)
    for count, trial in enumerate(passes, start=1):
        if not best.failed and (not recipe.fewest_nodes or best.nodes <= enough):
            return best
        if count >= _FEWEST_PASSES and count * cost > _MOST_STEPS:
            break
        result = attempt(fresh(), kinds, trial)
        if _rank(result, recipe) < _rank(best, recipe):
            best = result
    if best.failed and gang.all_or_nothing:
        found = exact.search(fresh(), kinds)
        if not isinstance(found, exact.NoPlan):
            order = exact.in_turn(fresh(), kinds, found)
            return attempt(fresh(), kinds, Trial(order, RoleZone()), forced=found)
    return best


def seated(
    gang: Gang,
    kinds: Kinds,
    seats: Mapping[int, int],
    layout: ClusterLayout,
    free: Free,
    profile: Profile,
) -> Plan | None:
    """The plan with each position on the node that `seats` names; None if a node refuses one."""
    fresh = partial(Board, gang, recipe_for(gang, profile), layout, free, kinds.roles)
    order = tuple(sorted(seats, key=lambda position: (kinds.of[position], position)))
    board = fresh()
    for position in order:
        want, row = kinds[position], np.array([seats[position]])
        for answers in (board.objections(want, row), board.gang_objections(want, row)):
            if any(refused[0] for refused in answers.values()):
                return None
        board.take(want, row)
        board.untried[want.role] -= 1
    return plan_of(gang, attempt(fresh(), kinds, Trial(order, RoleZone()), forced=seats))


def _rank(result: Attempt, recipe: Recipe) -> tuple[int, int]:
    return len(result.failed), result.nodes if recipe.fewest_nodes else 0


def plan_of(gang: Gang, best: Attempt) -> Plan:
    placements = []
    waiting = []
    notes = []
    known: dict[tuple[int, Pinning], Slot] = {}
    seats = best.all_seats
    for position, member in enumerate(gang.members):
        if position not in best.where:
            waiting.append(member.id)
            continue
        seat = seats[position]
        if seat.before == seat.after and member.pinning is not Pinning.EXCLUSIVE:
            slot = known.get((seat.node, member.pinning))
            if slot is None:
                slot = known[seat.node, member.pinning] = _slot(member, seat, best.board)
        else:
            slot = _slot(member, seat, best.board)
        placements.append(Placement(member.id, slot))
        if slot.exclusive and len(slot.cells) > 1:
            notes.append(explain.spans_cells(member, slot))
    link = _link(gang, best)
    if link is not None:
        notes.append(str(link))
    return Plan(gang.job, tuple(placements), tuple(waiting), tuple(notes))


def _slot(member: Member, seat: Seat, board: Board) -> Slot:
    """Shared CPUs are what all exclusive members of the finished plan have left over."""
    pool = board.layout.pool
    node = board.layout.nodes[seat.node].name
    own = pool.cut(seat.before, seat.after)
    if member.pinning is Pinning.EXCLUSIVE:
        return Slot(node, own.cpus, own.cells, own.gpus, True, own.gpu_share_millis)
    hardware = pool.topology(seat.before)
    cpus = hardware.all_cpus
    if member.pinning is Pinning.SHARED:
        cpus = pool.masks(board.free.state.item(seat.node))[0]
    cells = hardware.cell_ids(cpus)
    share = own.gpu_share_millis
    return Slot(node, hardware.cpu_ids(cpus), cells, own.gpus, gpu_share_millis=share)
