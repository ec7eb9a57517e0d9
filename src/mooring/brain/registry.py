"""The rules of placing, by name: one small file each registers itself here.

A filter says which nodes cannot take a member and, for one node, why; a score says how well
those that can would do. Both answer for many nodes at once. A node's answer depends on that node
alone, unless the filter is registered as `gang` wide: that is what lets the planner place all
members of one kind by following each node's own sequence of answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from mooring.brain.layout import Mask, Rows, Values

if TYPE_CHECKING:
    from mooring.brain.board import Board
    from mooring.brain.want import Want

#: Class of reason -> the nodes, of those asked, that give it. Nodes in none can take the member.
Objections = dict[str, Mask]
FilterRule = Callable[["Want", "Board", Rows], Objections]
#: The reasons of one node: each a class, possibly followed by ` (detail)`.
Why = Callable[["Want", "Board", int], tuple[str, ...]]
#: More is better; one number if it is the same for all. The weight says how much.
ScoreRule = Callable[["Want", "Board", Rows], "Values | float"]


class Scope(StrEnum):
    """What an answer depends on, besides the member.

    fixed: what a node is (labels, taints, hardware), so that it is asked once and kept; node: also
    what is free and who of the gang is there; gang: also other nodes.
    """

    FIXED = "fixed"
    NODE = "node"
    GANG = "gang"


@dataclass(frozen=True)
class Filter:
    name: str
    rule: FilterRule
    why: Why
    scope: Scope = Scope.NODE
    passing: bool = False
    """May a refusal be lifted by placing others of the gang elsewhere?"""
    counted: bool = False
    """Does `Board.fits` give 0 wherever it refuses?"""


@dataclass(frozen=True)
class Score:
    name: str
    rule: ScoreRule
    scope: Scope = Scope.NODE


FILTERS: dict[str, Filter] = {}
SCORES: dict[str, Score] = {}


def add_filter(
    name: str,
    rule: FilterRule,
    why: Why,
    scope: Scope = Scope.NODE,
    *,
    passing: bool = False,
    counted: bool = False,
) -> None:
    FILTERS[name] = Filter(name, rule, why, scope, passing, counted)


def score_rule(name: str, scope: Scope = Scope.NODE) -> Callable[[ScoreRule], ScoreRule]:
    def register(rule: ScoreRule) -> ScoreRule:
        SCORES[name] = Score(name, rule, scope)
        return rule

    return register


@dataclass(frozen=True)
class Rules:
    """The named rules by what their answers depend on."""

    node_filters: tuple[Filter, ...]
    """What a node answers by itself: those that are fixed and those that move."""
    gang_filters: tuple[Filter, ...]
    fixed_filters: tuple[Filter, ...]
    moving_filters: tuple[Filter, ...]
    uncounted_filters: tuple[Filter, ...]
    """Those of the moving ones that counting does not answer for."""
    fixed_key: tuple[str, ...]
    gang_scores: tuple[tuple[str, float], ...]
    own_scores: tuple[tuple[str, float], ...]


def rules_of(filters: tuple[str, ...], scores: tuple[tuple[str, float], ...]) -> Rules:
    known = [FILTERS[name] for name in filters]
    fixed = tuple(rule for rule in known if rule.scope is Scope.FIXED)
    moving = tuple(rule for rule in known if rule.scope is Scope.NODE)
    return Rules(
        node_filters=tuple(rule for rule in known if rule.scope is not Scope.GANG),
        gang_filters=tuple(rule for rule in known if rule.scope is Scope.GANG),
        fixed_filters=fixed,
        moving_filters=moving,
        uncounted_filters=tuple(rule for rule in moving if not rule.counted),
        fixed_key=tuple(rule.name for rule in fixed),
        gang_scores=tuple(score for score in scores if SCORES[score[0]].scope is Scope.GANG),
        own_scores=tuple(score for score in scores if SCORES[score[0]].scope is not Scope.GANG),
    )
