"""Placing a kind at once is placing its members one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_brain_properties import gangs, snapshots

from mooring.brain.board import Board
from mooring.brain.fill import fill
from mooring.brain.layout import ClusterLayout, free_of
from mooring.brain.presets import recipe_for
from mooring.brain.want import kinds_of
from mooring.model.cluster import Snapshot
from mooring.model.member import Gang


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(gangs(most=6), snapshots(most_nodes=6), st.integers(1, 30))
def test_at_once_is_as_one_after_the_other(gang: Gang, snapshot: Snapshot, count: int) -> None:
    layout = ClusterLayout(snapshot.nodes)
    free = free_of(layout, snapshot)
    recipe = recipe_for(gang)
    at_once, stepwise = (Board(gang, recipe, layout, free) for _ in range(2))
    for want in kinds_of(gang).wants:
        if any(want.role in rule.others for rule in recipe.required if want.role in rule.roles):
            continue  # the planner places the first of these on its own
        expected = []
        for _ in range(count):
            expected += fill(stepwise, want, 1).tolist()
        assert fill(at_once, want, count).tolist() == expected
        for name in ("cpu_millis", "memory_bytes", "gpus", "shared_millis", "sharers", "state"):
            mine, theirs = getattr(at_once.free, name), getattr(stepwise.free, name)
            assert mine.tolist() == theirs.tolist()
        assert at_once.members.tolist() == stepwise.members.tolist()
        assert all(at_once.port(p).tolist() == stepwise.port(p).tolist() for p in want.ports)
