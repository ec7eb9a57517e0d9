"""A CPU quota stops the member for a part of each period."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import MemberFacts, RunFacts, Use
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import READY, SAMPLES, by_role, names, used, whole_cpus
from mooring.doctor.registry import CheckPage, run_check
from mooring.spec.edit import Change

#: Periods (100 ms unless somebody changed it) in which the quota ran out. A burst at the start of
#: an epoch gives single ones; a tenth of them is felt in every step.
_SHARE = 0.1
_LEAST_PERIODS = 5
_PAGE = CheckPage(
    why="Once the quota of a period (100 ms) is used up, every thread stands still until the "
    "next one begins. Members that wait for each other all wait for the one that was stopped.",
    measured="`nr_throttled` against `nr_periods` of the nearest control group with a quota, and "
    "the seconds held back, in the time in which the job trained. One period in ten is reported.",
    fix="Ask for as many CPUs as the member uses (on Kubernetes the limit is what it asks for), "
    "or whole CPUs with `pinning: exclusive`, which need no quota; and no more threads than "
    "CPUs, because many threads use up a quota within a moment.",
    not_when="The quota is what you may use and the job is not in a hurry.",
)


@run_check("cpu-throttled", "Held back by a CPU quota", _PAGE)
def throttled(facts: RunFacts) -> Iterator[Found]:
    held = [(member, use) for member, use in used(facts.members) if _share(use) >= _SHARE]
    uses = {member.name: use for member, use in held}
    for role, members in by_role(member for member, _ in held):
        worst = max(members, key=lambda member: _share(uses[member.name]))
        use = uses[worst.name]
        lost = _lost(worst, use)
        wanted = whole_cpus(use.cpus / (1 - lost))
        quota = f"{worst.quota_millis / 1000:g}" if worst.quota_millis else "not known"
        carried = role in facts.job.spec.roles and wanted * 1000 > worst.asked_millis > 0
        changes = (Change(("spec", "roles", role, "resources", "cpu"), wanted),) if carried else ()
        yield Found(
            says=f"{role}: the quota stopped it in {100 * _share(use):.0f} % of all periods",
            evidence=(
                Figure("periods held back", use.throttled_periods, "", SAMPLES, (worst.name,)),
                Figure("of periods", use.periods, "", SAMPLES, (worst.name,)),
                Figure("held back", use.throttled_s, "s", SAMPLES, (worst.name,)),
                Figure("in", use.span_s, "s", SAMPLES, (worst.name,)),
                Figure("quota", quota, "CPUs", READY, (worst.name,)),
                Figure("CPUs used", use.cpus, "", SAMPLES, (worst.name,)),
            ),
            remedy=Remedy(
                f"ask for {wanted} CPUs, or have the quota raised",
                changes,
                where="" if changes else "whoever set the quota of the container or control group",
            ),
            confidence=Confidence.CERTAIN,
            weight=min(0.95, max(lost, 0.3)),
            members=names(members),
            gain=Gain(1.0, 1 / (1 - lost), "time in which the quota let nothing run"),
        )


def _share(use: Use) -> float:
    """Of all periods; without their number, of those of 100 ms that fit the window."""
    if use.throttled_periods < _LEAST_PERIODS:
        return 0.0
    return use.throttled_periods / (use.periods or max(1.0, use.span_s / 0.1))


def _lost(member: MemberFacts, use: Use) -> float:
    """The part of the time in which nothing ran: the kernel sums it over the CPUs it was on."""
    cpus = max(1, min(len(member.seen_cpus), round(use.runnable or 1.0)))
    return min(0.95, use.throttled_s / (use.span_s * cpus))
