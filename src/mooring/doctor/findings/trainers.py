"""What the checks of stacks share: who was looked at, and how sure a share of looks is."""

from __future__ import annotations

from math import sqrt

from mooring.doctor.facts import MemberFacts, RunFacts, StackFacts
from mooring.doctor.registry import Unknown
from mooring.stacks.categories import Category

STACKS = "samples/M.jsonl, looks"
#: One-sided, 95 %: a share of 0.15 in 50 looks may be 0.07.
_DEVIATIONS = 1.64
_SERVES = 0.5


def watched(facts: RunFacts) -> list[tuple[MemberFacts, StackFacts]]:
    """Each process whose stacks were looked at. Raises Unknown with the reason if there is none."""
    found = [(member, stack) for member in facts.members for stack in member.stacks]
    if found:
        return found
    notes = [facts.stacks_note, *(member.stacks_note for member in facts.members)]
    raise Unknown(next((note for note in notes if note), "too few looks at the trainers' stacks"))


def trainers(facts: RunFacts) -> list[tuple[MemberFacts, StackFacts]]:
    """Those of them whose Python trains: workers of parameter servers only serve the chief."""
    found = [pair for pair in watched(facts) if pair[1].share(Category.SERVING) < _SERVES]
    if not found:
        raise Unknown("what the members do happens inside TensorFlow, out of sight of stacks")
    return found


def at_least(share: float, looks: int) -> float:
    """What a share of so many looks is with some certainty."""
    return share - _DEVIATIONS * sqrt(max(0.0, share * (1 - share)) / looks)
