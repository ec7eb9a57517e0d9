"""All of its CPUs are in use, and more threads are ready."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import MemberFacts, RunFacts, Use
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import SAMPLES, by_role, names, used, whole_cpus
from mooring.doctor.registry import CheckPage, DoesNotApply, run_check
from mooring.spec.edit import Change

#: Ready threads for each CPU. One that computes without end beside another gives 2.
_MORE = 1.5
#: Beyond this it is a matter of thread counts (cpu-threads), not of CPUs.
_CROWD = 3.0
_PAGE = CheckPage(
    why="The member has more work than CPUs: loader processes, ranks or a server's threads take "
    "turns.",
    measured="Threads that ran or were ready to run, on average, against the CPUs of its own. "
    "Reported from one and a half for each CPU on. Members that share CPUs are not judged: they "
    "take what is free; nor those with a quota, see cpu-throttled.",
    fix="More CPUs for the role, or less work in each member.",
    not_when="The node has no more CPUs: then fewer members do the same work sooner.",
)


@run_check("cpu-starved", "Used all of its CPUs and wanted more", _PAGE)
def starved(facts: RunFacts) -> Iterator[Found]:
    bounded = [member for member in facts.members if member.exclusive]
    if not bounded:
        raise DoesNotApply("no member has CPUs of its own")
    hungry = [(member, use) for member, use in used(bounded) if _hungry(member, use)]
    uses = {member.name: use for member, use in hungry}
    for role, members in by_role(member for member, _ in hungry):
        worst = max(members, key=lambda member: uses[member.name].runnable or 0.0)
        use = uses[worst.name]
        wanted = whole_cpus(use.runnable or 1.0)
        changes = (Change(("spec", "roles", role, "resources", "cpu"), wanted),)
        yield Found(
            says=f"{role}: {use.runnable:.1f} threads ready for {worst.usable_cpus:g} CPUs",
            evidence=(
                Figure("CPUs of its own", worst.usable_cpus, "", "plan.json", (worst.name,)),
                Figure("CPUs used", use.cpus, "", SAMPLES, (worst.name,)),
                Figure("ready threads", use.runnable or 0.0, "", SAMPLES, (worst.name,)),
            ),
            remedy=Remedy(f"ask for {wanted} CPUs", changes),
            confidence=Confidence.LIKELY,
            weight=0.6 * (1 - worst.usable_cpus / wanted),
            members=names(members),
            gain=Gain(1.0, wanted / worst.usable_cpus, "threads ready ÷ CPUs, if all are needed"),
        )


def _hungry(member: MemberFacts, use: Use) -> bool:
    cpus = member.usable_cpus
    if use.runnable is None:
        return False
    # Of its own threads: what a neighbour takes makes none of them two.
    return _MORE * cpus < use.runnable <= _CROWD * max(1.0, cpus)
