"""Placing one gang on a snapshot, with every node's verdict: the entry for those who ask once."""

from __future__ import annotations

from dataclasses import replace

from mooring.brain.board import Board
from mooring.brain.layout import ClusterLayout, free_of
from mooring.brain.planner import decide
from mooring.brain.profile import DEFAULT, Profile
from mooring.brain.verdicts import replay
from mooring.model.cluster import Snapshot
from mooring.model.member import Gang
from mooring.model.plan import Plan, Refusal


def place(gang: Gang, snapshot: Snapshot, profile: Profile = DEFAULT) -> Plan | Refusal:
    """Where each member goes, or one sentence why the gang cannot start.

    A gang that may start in part is refused only if one of its members could never be placed.
    """
    layout = ClusterLayout(snapshot.nodes, snapshot.storage)
    free = free_of(layout, snapshot)
    decision = decide(gang, layout, free, profile)
    board = Board(gang, decision.recipe, layout, free)
    verdicts = dict(replay(board, decision.kinds, decision.best))
    if isinstance(decision.outcome, Refusal):
        assert decision.named is not None
        return replace(decision.outcome, verdicts=verdicts[decision.named])
    of = {member.id: verdicts[position] for position, member in enumerate(gang.members)}
    placements = tuple(
        replace(placement, verdicts=of[placement.member])
        for placement in decision.outcome.placements
    )
    return replace(decision.outcome, placements=placements)
