"""A member close to its memory limit, or ended by it."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import MEBIBYTE, READY, SAMPLES, by_role, mebibytes, names
from mooring.doctor.registry import CheckPage, Unknown, run_check
from mooring.spec.edit import Change

_CLOSE = 0.9
#: Room above the highest that was seen; after a kill the need is not known.
_ROOM = 1.3
_AFTER_A_KILL = 2.0
_PAGE = CheckPage(
    why="At its limit the kernel first drops cached files, so that data is read again and again, "
    "and then ends a process: the whole gang starts over.",
    measured="The highest resident memory of all samples against the limit that a control group "
    "enforces, or the member's end by it. Nine tenths are reported. Memory that several local "
    "processes share is counted once for each.",
    fix="A larger `resources.memory`; or a smaller batch, fewer loader processes, less "
    "prefetching.",
    not_when="It is memory that a framework reserves by design and that does not grow.",
)


@run_check("mem-limit", "Close to the memory limit", _PAGE)
def near_limit(facts: RunFacts) -> Iterator[Found]:
    limited = [
        member for member in facts.members if member.memory_limit_bytes and member.memory_enforced
    ]
    if not limited:
        raise Unknown("no memory limit is enforced")
    for role, members in by_role(
        member for member in limited if member.out_of_memory or _share(member) >= _CLOSE
    ):
        worst = max(members, key=lambda member: (member.out_of_memory, _share(member)))
        limit = worst.memory_limit_bytes or 0
        wanted = _AFTER_A_KILL * limit if worst.out_of_memory else _ROOM * worst.peak_memory_bytes
        ended = " and was ended by it" if worst.out_of_memory else ""
        yield Found(
            says=f"{worst.name} used {100 * _share(worst):.0f} % of its memory limit{ended}",
            evidence=(
                Figure(
                    "highest", worst.peak_memory_bytes / MEBIBYTE, "MiB", SAMPLES, (worst.name,)
                ),
                Figure("limit", limit / MEBIBYTE, "MiB", READY, (worst.name,)),
            ),
            remedy=Remedy(
                f"ask for {mebibytes(wanted)}",
                (Change(("spec", "roles", role, "resources", "memory"), mebibytes(wanted)),),
            ),
            confidence=Confidence.CERTAIN,
            weight=1.0,
            members=names(members),
        )


def _share(member: MemberFacts) -> float:
    return member.peak_memory_bytes / (member.memory_limit_bytes or 1)
