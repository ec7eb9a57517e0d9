"""Threads that move between caches or NUMA cells although one would hold them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mooring.doctor.facts import CpuPlace, MemberFacts, RunFacts, Use
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import EVENTS, SAMPLES, names, used, whole_cpus
from mooring.doctor.registry import CheckPage, DoesNotApply, run_check
from mooring.spec.edit import Change

#: Sightings of threads outside of the group with most of them; helpers that hardly run are few.
_OUTSIDE = 0.2
_PAGE = CheckPage(
    why="A thread that is moved leaves its data in the old cache, and on another NUMA cell its "
    "memory is far away for good. On machines with many caches (one for each 4 to 8 cores) the "
    "kernel moves threads often.",
    measured="On which CPU each thread was seen last, in all samples, against the caches and "
    "cells of the node. Reported when a fifth of the sightings is outside of the main cache or "
    "cell, although that has as many CPUs as the member wanted.",
    fix="`pinning: exclusive` with whole CPUs: the plan keeps them on one cell, and on one cache "
    "where it can.",
    not_when="The member needs more CPUs or memory than one cache or cell has, or waits most of "
    "the time.",
)


@run_check("cpu-wandering", "Threads wander across caches or NUMA cells", _PAGE)
def wandering(facts: RunFacts) -> Iterator[Found]:
    if not any(len({place.l3 for place in places}) > 1 for places in facts.topology.values()):
        raise DoesNotApply("its nodes have one cache and one NUMA cell, or do not tell")
    for kind, group_of, weight in (
        ("NUMA cells", _cell, 0.2),
        ("L3 caches", _cache, 0.1),
    ):
        loose = [
            (member, use, outside)
            for member, use in used(facts.members)
            if not member.exclusive and (outside := _outside(facts, member, use, group_of)) > 0
        ]
        if loose:
            yield _found(facts, kind, loose, weight)
            return


def _cell(place: CpuPlace) -> int:
    return place.cell


def _cache(place: CpuPlace) -> int:
    return place.l3


def _outside(
    facts: RunFacts, member: MemberFacts, use: Use, group_of: Callable[[CpuPlace], int]
) -> float:
    """The share of sightings outside of the main group; 0 if that is fine."""
    places = {place.cpu: group_of(place) for place in facts.topology.get(member.node, ())}
    seen: dict[int, int] = {}
    for cpu, count in member.seen_cpus.items():
        if cpu in places:
            seen[places[cpu]] = seen.get(places[cpu], 0) + count
    if len(seen) < 2:
        return 0.0
    main = max(seen, key=lambda group: seen[group])
    room = sum(group == main for group in places.values())
    wanted = max(use.runnable or use.cpus, float(member.threads_told or 1) * member.processes)
    outside = 1 - seen[main] / sum(seen.values())
    return outside if outside >= _OUTSIDE and whole_cpus(wanted) <= room else 0.0


def _found(
    facts: RunFacts, kind: str, loose: list[tuple[MemberFacts, Use, float]], weight: float
) -> Found:
    members = [member for member, _, _ in loose]
    worst, use, outside = max(loose, key=lambda one: one[2])
    role = facts.job.spec.roles.get(worst.role)
    whole = all(
        one.resources.cpu is not None and one.resources.cpu >= 1 and one.resources.cpu % 1 == 0
        for one in facts.job.spec.roles.values()
    )
    return Found(
        says=f"{worst.name}: {100 * outside:.0f} % of its threads' sightings outside of the main "
        f"one of the {kind}",
        evidence=(
            Figure("sightings outside", 100 * outside, "%", SAMPLES, (worst.name,)),
            Figure("CPUs wanted", use.runnable or use.cpus, "", SAMPLES, (worst.name,)),
            Figure("CPUs seen on", len(worst.seen_cpus), "", SAMPLES, (worst.name,)),
            Figure("CPUs of the node", len(facts.topology[worst.node]), "", EVENTS),
        ),
        remedy=Remedy(
            "hold members to CPUs of their own",
            (Change(("spec", "pinning"), "exclusive"),) if whole and role is not None else (),
            where="" if whole else "the job, once every role asks for whole CPUs",
        ),
        confidence=Confidence.POSSIBLE,
        weight=weight,
        members=names(members),
        gain=Gain(0.97, 1.14, "benchmarks/pinning.py, on one cache: more with several is likely"),
    )
