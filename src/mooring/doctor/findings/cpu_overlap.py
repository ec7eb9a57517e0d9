"""Members hold themselves to the same CPUs while others are free."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import SAMPLES, names, used
from mooring.doctor.registry import CheckPage, run_check
from mooring.model.cluster import format_cpus

#: CPUs that a member must use or want to count as one that computes.
_COMPUTES = 0.5
_PAGE = CheckPage(
    why="Two members that are held to the same CPUs run in turn, although other CPUs of the node "
    "would take them. Typical causes: `taskset` in a start script, KMP_AFFINITY or "
    "GOMP_CPU_AFFINITY with fixed numbers, a library that binds each rank to CPU 0.",
    measured="The CPUs that each member's processes may run on (sched_getaffinity) against those "
    "that it was given. Reported when members that compute have narrowed themselves to sets that "
    "overlap, and the node has CPUs outside of them.",
    fix="Take the fixed numbers out of the program or its environment, and let the plan pin: "
    "`pinning: exclusive` gives each member CPUs of its own.",
    not_when="They are meant to share: a server that works while the worker waits.",
)


@run_check("cpu-overlap", "Members are held to the same CPUs", _PAGE)
def overlap(facts: RunFacts) -> Iterator[Found]:
    uses = {member.name: use for member, use in used(facts.members)}
    narrowed = [
        member
        for member in facts.members
        if member.name in uses
        and (uses[member.name].runnable or 0.0) >= _COMPUTES
        and member.allowed_cpus
        and member.allowed_cpus < member.held_cpus
    ]
    groups: dict[tuple[str, frozenset[int]], list[MemberFacts]] = {}
    for member in narrowed:
        groups.setdefault((member.node, member.allowed_cpus), []).append(member)
    for (node, cpus), members in groups.items():
        free = facts.node_cpus.get(node, frozenset()) - cpus
        if len(members) < 2 or not free:
            continue
        wanted = sum(min(uses[member.name].runnable or 0.0, len(cpus)) for member in members)
        if wanted <= len(cpus):
            continue
        high = min(wanted / len(cpus), (len(free) + len(cpus)) / len(cpus))
        yield Found(
            says=f"{len(members)} members share CPUs {format_cpus(cpus)} of {node}; "
            f"{format_cpus(free)} are not used by them",
            evidence=(
                Figure("may run on", format_cpus(cpus), "", SAMPLES, names(members)),
                Figure("were given", format_cpus(members[0].held_cpus), "", "plan.json"),
                Figure("CPUs wanted", wanted, "", SAMPLES, names(members)),
            ),
            remedy=Remedy(
                "do not bind to fixed CPUs in the program; let the plan pin",
                where="taskset, KMP_AFFINITY, GOMP_CPU_AFFINITY or the like in the command",
            ),
            confidence=Confidence.CERTAIN,
            weight=min(0.9, 1 - 1 / high),
            members=names(members),
            gain=Gain(1.0, high, "CPUs that they want ÷ CPUs that they share"),
        )
