"""The rules of placing, by name: one small file each registers itself here.

A filter says why a node cannot take a member; a score says how well one that can would do.
Both look at one node at a time and at nothing that other nodes could change, unless the filter
is registered as `gang` wide: that is what lets the planner re-ask only the node that changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.brain.board import Board
    from mooring.brain.room import Room
    from mooring.brain.want import Want

#: Reasons to refuse, each a short class, possibly followed by ` (detail)`; empty = can take it.
FilterRule = Callable[["Want", "Room", "Board"], tuple[str, ...]]
#: More is better. The preset's weight says how much.
ScoreRule = Callable[["Want", "Room", "Board"], float]


class Scope(StrEnum):
    """What a filter's answer depends on, besides the member."""

    NODE = "node"
    GANG = "gang"


@dataclass(frozen=True)
class Filter:
    name: str
    scope: Scope
    rule: FilterRule


FILTERS: dict[str, Filter] = {}
SCORES: dict[str, ScoreRule] = {}


def filter_rule(name: str, scope: Scope = Scope.NODE) -> Callable[[FilterRule], FilterRule]:
    def register(rule: FilterRule) -> FilterRule:
        FILTERS[name] = Filter(name, scope, rule)
        return rule

    return register


def score_rule(name: str) -> Callable[[ScoreRule], ScoreRule]:
    def register(rule: ScoreRule) -> ScoreRule:
        SCORES[name] = rule
        return rule

    return register
