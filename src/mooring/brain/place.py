"""Placing a whole gang: the entry to the brain."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.brain import (
    exact,
    explain,
    filters,  # noqa: F401  importing registers the rules
    outlook,
    scores,  # noqa: F401
)
from mooring.brain.attempt import Attempt, Seat, attempt
from mooring.brain.board import Board
from mooring.brain.presets import Recipe, recipe_for
from mooring.brain.trials import Trial, Zone, cannot_fit, trials
from mooring.brain.want import Want, want_of
from mooring.model.cluster import Snapshot
from mooring.model.member import Gang, Member, Pinning
from mooring.model.plan import Placement, Plan, Refusal, Slot

#: Members x nodes, summed over all passes: about half a second of looking.
_MOST_STEPS = 150_000
_FEWEST_PASSES = 4


def place(gang: Gang, snapshot: Snapshot) -> Plan | Refusal:
    """Where each member goes, or one sentence why the gang cannot start.

    A gang that may start in part is refused only if one of its members could never be placed.
    """
    recipe = recipe_for(gang)
    wants = [want_of(member) for member in gang.members]
    best = _best_attempt(gang, recipe, snapshot, wants)
    if not best.failed:
        return _plan(gang, best)
    hopeless = outlook.hopeless(gang, recipe, snapshot, (wants[i] for i in best.failed))
    if not gang.all_or_nothing and not hopeless:
        return _plan(gang, best)
    named = next((i for i in best.failed if wants[i] in hopeless), next(iter(best.failed)))
    if wants[named] in hopeless:
        remark = hopeless[wants[named]]
    elif outlook.gang_never_fits(gang, recipe, snapshot, wants):
        remark = explain.NOT_EVEN_EMPTY
    else:
        remark = ""
    member, verdicts = gang.members[named], best.failed[named]
    sentence = explain.refusal(member, verdicts, len(best.seats), len(wants), remark)
    return Refusal(gang.job, sentence, member.id, verdicts)


def _best_attempt(gang: Gang, recipe: Recipe, snapshot: Snapshot, wants: Sequence[Want]) -> Attempt:
    """The first pass that places all, or of all passes the one on the fewest nodes."""
    best = Attempt(Board(gang, recipe, snapshot))
    cost = len(wants) * len(snapshot.nodes)
    probe = Board(gang, recipe, snapshot)
    # The one pass that is still made shows who is left over, and why.
    pointless = gang.all_or_nothing and cannot_fit(probe, wants)
    for count, trial in enumerate(trials(probe, wants)):
        if count and pointless:
            return best
        if count >= _FEWEST_PASSES and count * cost > _MOST_STEPS:
            break
        result = attempt(Board(gang, recipe, snapshot), wants, trial)
        if not count or _rank(result, recipe) < _rank(best, recipe):
            best = result
        if not best.failed and not recipe.fewest_nodes:
            return best
    if best.failed and gang.all_or_nothing:
        found = exact.search(Board(gang, recipe, snapshot), wants)
        if not isinstance(found, exact.Result):
            again = Trial(tuple(found), Zone())
            return attempt(Board(gang, recipe, snapshot), wants, again, forced=found)
    return best


def _rank(result: Attempt, recipe: Recipe) -> tuple[int, int]:
    return len(result.failed), result.nodes if recipe.fewest_nodes else 0


def _plan(gang: Gang, best: Attempt) -> Plan:
    placements = []
    waiting = []
    notes = []
    for position, member in enumerate(gang.members):
        seat = best.seats.get(position)
        if seat is None:
            waiting.append(member.id)
            continue
        slot = _slot(member, seat)
        placements.append(Placement(member.id, slot, seat.verdicts))
        if slot.exclusive and len(slot.cells) > 1:
            notes.append(explain.spans_cells(member, slot))
    return Plan(gang.job, tuple(placements), tuple(waiting), tuple(notes))


def _slot(member: Member, seat: Seat) -> Slot:
    """Shared CPUs are what all exclusive members of the finished plan have left over."""
    node = seat.room.node
    match member.pinning:
        case Pinning.EXCLUSIVE:
            cpus = seat.cut.cpus
        case Pinning.SHARED:
            cpus = tuple(cpu for cpu in node.cpus if cpu.id in seat.room.cpus)
        case Pinning.NONE:
            cpus = node.cpus
    return Slot(
        node=node.name,
        cpus=tuple(sorted(cpu.id for cpu in cpus)),
        cells=tuple(sorted({cpu.cell for cpu in cpus})),
        gpus=tuple(gpu.index for gpu in seat.cut.gpus),
        exclusive=member.pinning is Pinning.EXCLUSIVE,
    )
