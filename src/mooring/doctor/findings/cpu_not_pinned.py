"""CPUs of its own were asked for, and the member does not have them."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import JOB, PLAN, READY, names
from mooring.doctor.registry import CheckPage, DoesNotApply, run_check
from mooring.model.cluster import format_cpus
from mooring.model.member import Pinning

_PAGE = CheckPage(
    why="The job asks for CPUs that nobody else uses. Without them its threads wander and share "
    "caches and time with others, and figures differ from run to run.",
    measured="What the member's launcher found: the CPUs that its processes may run on against "
    "those that the plan gave it. On Kubernetes also the pod's quality of service, whole or "
    "broken CPU numbers and the kubelet's policy.",
    fix="Follow the reason: whole CPUs, a Guaranteed pod, `cpuManagerPolicy: static` at the "
    "kubelet, no call in the program that widens its own affinity.",
)


@run_check("cpu-not-pinned", "Not pinned although asked", _PAGE)
def not_pinned(facts: RunFacts) -> Iterator[Found]:
    if facts.job.spec.pinning is not Pinning.EXCLUSIVE:
        raise DoesNotApply("the job does not ask for CPUs of its own")
    loose = [(member, why) for member in facts.members if (why := _why(member))]
    reasons: dict[str, list[MemberFacts]] = {}
    for member, why in loose:
        reasons.setdefault(why, []).append(member)
    for why, members in reasons.items():
        first = members[0]
        yield Found(
            says=f"{', '.join(names(members)[:4])}: {why}",
            evidence=(
                Figure("asked", "exclusive", "", JOB, names(members)),
                Figure("given", format_cpus(first.held_cpus) or "–", "", PLAN, (first.name,)),
                Figure(
                    "may run on", format_cpus(first.allowed_cpus) or "–", "", READY, (first.name,)
                ),
            ),
            remedy=Remedy("have the CPUs that were asked for", where=why),
            confidence=Confidence.CERTAIN,
            weight=0.3,
            members=names(members),
            gain=Gain(0.97, 1.14, "benchmarks/pinning.py: alone, and beside a noisy neighbour"),
        )


def _why(member: MemberFacts) -> str:
    if member.pinning_note:
        return member.pinning_note
    if not member.pinned:
        return "its launcher could not pin it"
    if not member.exclusive:
        return "the plan gave it shared CPUs"
    wider = member.allowed_cpus - member.held_cpus
    if wider:
        return f"the program widened its affinity to CPUs {format_cpus(member.allowed_cpus)}"
    return ""
