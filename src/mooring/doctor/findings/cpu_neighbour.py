"""Somebody else computes on CPUs that are a member's own."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts, Use
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import SAMPLES, names, used
from mooring.doctor.registry import CheckPage, DoesNotApply, run_check
from mooring.model.cluster import format_cpus

#: Of the CPU time that it wanted and its CPUs have. Launchers and `moor` take half a per cent.
_TAKEN = 0.2
_PAGE = CheckPage(
    why="Exclusive CPUs are exclusive among members. Other programs of the machine may still run "
    "there, and a member that waits makes all that wait for it wait.",
    measured="Alone on its CPUs a member gets as many of them as it has threads ready to run. "
    "What it wanted (CPU time and waiting time) up to the number of its CPUs, less what it got, "
    "was taken by others; a fifth is reported.",
    fix="Move the others away (a cpuset for system services, `isolcpus`, the kubelet's reserved "
    "CPUs), or give the member other CPUs.",
)


@run_check("cpu-neighbour", "Others compute on its exclusive CPUs", _PAGE)
def neighbour(facts: RunFacts) -> Iterator[Found]:
    # A program that has left its CPUs meets others elsewhere: that is cpu-not-pinned.
    exclusive = [
        member
        for member in facts.members
        if member.exclusive and member.held_cpus and member.allowed_cpus <= member.held_cpus
    ]
    if not exclusive:
        raise DoesNotApply("no member has CPUs of its own")
    disturbed = []
    for member, use in used(exclusive):
        taken = _taken(use, len(member.held_cpus))
        if taken >= _TAKEN:
            disturbed.append((member, use, taken))
    if not disturbed:
        return
    worst, use, taken = max(disturbed, key=lambda one: one[2])
    members = [member for member, _, _ in disturbed]
    yield Found(
        says=f"{worst.name} got {use.cpus:.2f} of its own CPUs {format_cpus(worst.held_cpus)}",
        evidence=(
            Figure("CPUs got", use.cpus, "", SAMPLES, (worst.name,)),
            Figure(
                "CPUs wanted",
                min(use.runnable or 0.0, len(worst.held_cpus)),
                "",
                SAMPLES,
                (worst.name,),
            ),
            Figure("waited for a CPU", use.wait_s or 0.0, "s", SAMPLES, (worst.name,)),
            Figure("in", use.span_s, "s", SAMPLES, (worst.name,)),
        ),
        remedy=Remedy(
            "find who else runs there, and move it away",
            code="ps -eLo psr,pcpu,pid,comm --sort=-pcpu | head\n",
            where="the machine",
        ),
        confidence=Confidence.CERTAIN,
        weight=min(0.9, taken),
        members=names(members),
        gain=Gain(1.0, 1 / (1 - min(0.9, taken)), "CPU time wanted ÷ CPU time got"),
    )


def _taken(use: Use, cpus: int) -> float:
    if not use.runnable:
        return 0.0
    wanted = min(use.runnable, cpus)
    # Below a tenth of a CPU the figures are those of single ticks.
    return max(0.0, 1 - use.cpus / wanted) if wanted >= 0.1 else 0.0
