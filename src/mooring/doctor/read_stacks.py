"""Launchers' looks at trainers to facts: shares of time by what names tell, and what recurs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from mooring.account.dividing import categories_of
from mooring.account.looks import Place, RankLooks, Reads
from mooring.doctor.facts import ReadFacts, Repeats, StackFacts
from mooring.stacks.categories import Category
from mooring.stacks.classify import ClassifiedStack

#: Fewer looks say nothing about a share.
LEAST_LOOKS = 30
#: Of the same thing, to say how often it comes.
_LEAST_EPISODES = 3
_MORE_THAN_CHANCE = 2.0
#: Two looks with a longer pause between them are not one sequence.
_PAUSE_S = 3.0


@dataclass(frozen=True)
class _Look:
    at_s: float
    lasts_s: float
    category: Category


def read_stacks(ranks: Sequence[RankLooks]) -> tuple[StackFacts, ...]:
    """Facts of each process with enough looks that saw a stack."""
    found = [_facts(rank) for rank in ranks]
    return tuple(one for one in found if one is not None)


def _facts(seen: RankLooks) -> StackFacts | None:
    places = list(
        dict.fromkeys(look.place for look in seen.looks if look.place and look.place.main.stack)
    )
    known = dict(zip(places, categories_of(places), strict=True))
    looks = [
        _Look(look.at_s, look.lasts_s, known[look.place].category)
        for look in seen.looks
        if look.place in known
    ]
    if len(looks) < LEAST_LOOKS:
        return None
    total_s = sum(look.lasts_s for look in looks)
    shares: dict[Category, float] = {}
    for one in looks:
        shares[one.category] = shares.get(one.category, 0.0) + one.lasts_s / total_s
    repeats = {name: found for name in shares if (found := _repeats(looks, name)) is not None}
    return StackFacts(
        looks=len(looks),
        shares=shares,
        places=_places(seen, known),
        repeats=repeats,
        loaders=seen.helpers,
        reads=_reads(seen, seen.io),
    )


def _repeats(looks: Sequence[_Look], category: Category) -> Repeats | None:
    """How often it begins, if it was seen in a row far more often than chance would have it.

    What comes in every short step is seen here and there: then a row of looks with share p has
    1 / (1 - p) of them on average.
    """
    episodes: list[tuple[float, float]] = []
    gaps: list[float] = []
    begun: float | None = None
    ended_s = float("-inf")
    for before, one in zip([None, *looks], looks, strict=False):
        if before is not None and one.at_s - before.at_s > _PAUSE_S:
            # What was under way may have ended unseen.
            begun, ended_s = None, float("-inf")
        if one.category is category and begun is None:
            begun = one.at_s
        elif one.category is not category and begun is not None:
            if ended_s > float("-inf"):
                gaps.append(begun - episodes[-1][0])
            episodes.append((begun, one.at_s - begun))
            ended_s, begun = one.at_s, None
    if len(episodes) < _LEAST_EPISODES or not gaps:
        return None
    share = sum(look.category is category for look in looks) / len(looks)
    in_a_row = mean(lasts for _, lasts in episodes) / mean(look.lasts_s for look in looks)
    if in_a_row * (1 - share) < _MORE_THAN_CHANCE:
        return None
    return Repeats(every_s=median(gaps), lasts_s=median(lasts for _, lasts in episodes))


def _places(seen: RankLooks, known: dict[Place, ClassifiedStack]) -> dict[Category, str]:
    """Category -> the line of the program at which it was seen most."""
    counts: dict[Category, dict[str, float]] = {}
    for look in seen.looks:
        if look.place is not None and look.place in known and known[look.place].where:
            one = known[look.place]
            of_name = counts.setdefault(one.category, {})
            of_name[one.where] = of_name.get(one.where, 0.0) + look.lasts_s
    return {
        name: max(of_name, key=lambda place: (of_name[place], place))
        for name, of_name in counts.items()
    }


def _reads(seen: RankLooks, io: Reads) -> ReadFacts | None:
    if io.span_s <= 0:
        return None
    clock = seen.clock
    return ReadFacts(
        asked_bytes_per_s=io.asked_bytes / io.span_s,
        calls_per_s=io.calls / io.span_s,
        fetched_bytes_per_s=io.fetched_bytes / io.span_s,
        file_systems=tuple(sorted(io.kinds, key=lambda kind: (-io.kinds[kind], kind))),
        files=io.files,
        main_cpus=(clock.ran_s + clock.ready_s) / clock.span_s if clock.span_s > 0 else None,
        loader_cpus=io.helper_cpu_s / io.span_s,
    )
