"""Something beside training that takes a part of the trainers' time. The checks name what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from mooring.account import Activity
from mooring.doctor.facts import MemberFacts, RunFacts, StackFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import line_of, unnamed
from mooring.doctor.findings.trainers import STACKS, at_least, trainers
from mooring.doctor.registry import NotRecognised
from mooring.model.amounts import rough_duration
from mooring.stacks.categories import Category

#: What it may cost afterwards.
GOAL = 0.02


@dataclass(frozen=True)
class FrequentWork:
    """What is looked for; reported when it surely takes `least` of a trainer's time."""

    category: Category
    least: float
    noun: str
    confidence: Confidence
    advice: str
    code: str
    """For PyTorch, and where the framework is not known."""
    tensorflow_code: str


def times_less(share: float) -> int:
    """How many times less often leaves GOAL of the time for it.

    In a second of other work it now takes share / (1 - share), and may take GOAL / (1 - GOAL).
    """
    known = min(share, 0.99)
    return max(2, ceil(known / (1 - known) / (GOAL / (1 - GOAL))))


def too_often(facts: RunFacts, kind: FrequentWork) -> Iterator[Found]:
    seen = [
        (member, stack, share)
        for member, stack in trainers(facts)
        if at_least(share := _share(facts, member, stack, kind), stack.looks) >= kind.least
    ]
    if not seen:
        if what := unnamed(facts):
            raise NotRecognised(what)
        return
    member, stack, share = max(seen, key=lambda one: one[2])
    who = (member.name,)
    times = times_less(share)
    repeats = stack.repeats.get(kind.category)
    says = f"{member.name}: {100 * share:.0f} % of the time goes into {kind.noun}"
    does = f"{kind.advice}; {times} times less often costs {100 * GOAL:.0f} %"
    tensorflow = facts.job.spec.framework == "tensorflow"
    code = kind.tensorflow_code if tensorflow else kind.code
    evidence = [
        Figure(f"share of {kind.noun}", 100 * share, "%", STACKS, who),
        Figure("looks at its stack", stack.looks, "", STACKS, who),
    ]
    place = stack.places.get(kind.category) or _line(facts, member, kind)
    if place:
        evidence.append(Figure("seen most at", place, "", STACKS, who))
    if repeats is not None:
        says += f": {repeats.lasts_s:.1f} s every {repeats.every_s:.1f} s"
        does += f" (every {rough_duration(repeats.every_s * times)} or longer)"
        evidence.append(Figure("every", repeats.every_s, "s", STACKS, who))
        evidence.append(Figure("lasts", repeats.lasts_s, "s", STACKS, who))
    yield Found(
        says=says,
        evidence=tuple(evidence),
        remedy=Remedy(
            does,
            code=code.replace("TIMES", str(times)),
            where=place or "the training program",
        ),
        confidence=kind.confidence,
        weight=min(0.95, share - GOAL),
        members=tuple(dict.fromkeys(member.name for member, _, _ in seen)),
        gain=Gain(1.0, 1 / (1 - share + GOAL), f"if it took {100 * GOAL:.0f} % of the time"),
    )


def _share(facts: RunFacts, member: MemberFacts, stack: StackFacts, kind: FrequentWork) -> float:
    """By names of functions, or by what the account saw without one (output that nobody takes)."""
    rank = facts.account.of(member.name)
    by_account = rank.phases.get(kind.category, 0.0) if rank is not None else 0.0
    return max(stack.share(kind.category), by_account)


def _line(facts: RunFacts, member: MemberFacts, kind: FrequentWork) -> str:
    """Where the account saw it; only what is printed is seen without a name."""
    rank = facts.account.of(member.name)
    if rank is None or kind.category is not Category.LOGGING:
        return ""
    line = line_of(rank, Activity.DISK)
    return line.place if line is not None else ""
