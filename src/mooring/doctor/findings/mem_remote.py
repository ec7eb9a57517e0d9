"""Memory on NUMA cells that the member does not compute on."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain
from mooring.doctor.findings.measured import MEBIBYTE, SAMPLES, names
from mooring.doctor.findings.places import bring_near, home, several_cells
from mooring.doctor.registry import CheckPage, Unknown, run_check
from mooring.model.cluster import format_cpus

#: A fifth of the memory, and more than any cache holds: less than that does not show in a step.
_SHARE = 0.2
_LEAST_BYTES = 64 * MEBIBYTE
#: What a distant access costs more than a near one; two-socket machines tell distances of 20 or 21
#: where 10 is near (numactl --hardware).
_DEARER = 1.0
_PAGE = CheckPage(
    why="A page stays on the NUMA cell of the thread that touched it first. A process that was "
    "moved since, or that another one loaded the data for, fetches it over the link between the "
    "sockets: each access takes about twice as long, and the link is shared by all.",
    measured="Bytes of each process by cell (/proc/PID/numa_maps, or memory.numa_stat of the "
    "member's own control group), without pages of files, after 2 s and then more and more "
    "rarely, because the kernel walks page tables to answer; against the cells that its threads "
    "were seen on. A fifth of the memory and 64 MiB are reported. Processes of more than 16 GiB "
    "are looked at only where their control group counts.",
    fix="`pinning: exclusive`: the plan takes the CPUs from one cell where it can, and the "
    "launcher has memory come from there. Otherwise bind the program before it allocates. What is "
    "already far can be moved once: `migratepages PID FROM TO`.",
    not_when="It needs more memory than a cell has, or interleaves on purpose to use the bandwidth "
    "of all cells.",
)


@run_check("mem-remote", "Memory on distant NUMA cells", _PAGE)
def remote(facts: RunFacts) -> Iterator[Found]:
    several_cells(facts)
    looked = [member for member in facts.members if member.memory_cells]
    if not looked:
        raise Unknown("nobody has looked where the memory is yet")
    far = [
        (member, share)
        for member in looked
        if (share := _share(facts, member)) >= _SHARE
        and share * sum(member.memory_cells.values()) >= _LEAST_BYTES
    ]
    if not far:
        return
    worst, share = max(far, key=lambda one: one[1])
    near = home(facts, worst)
    yield Found(
        says=f"{worst.name}: {100 * share:.0f} % of its memory is on other NUMA cells than its "
        "threads",
        evidence=(
            *(
                Figure(f"on cell {cell}", amount / MEBIBYTE, "MiB", SAMPLES, (worst.name,))
                for cell, amount in sorted(worst.memory_cells.items())
            ),
            Figure("threads on cells", format_cpus(near), "", SAMPLES, (worst.name,)),
        ),
        remedy=bring_near(facts, worst, "keep CPUs and memory on one NUMA cell", min(near)),
        confidence=Confidence.LIKELY,
        # Only the part of a step that waits for memory gets slower; a third is a guess that puts
        # it behind causes whose time is measured.
        weight=share / 3,
        members=names(member for member, _ in far),
        gain=Gain(
            1.0,
            1 + _DEARER * share,
            "if it does nothing but wait for memory, and far costs twice as much; not measured",
        ),
    )


def _share(facts: RunFacts, member: MemberFacts) -> float:
    near = home(facts, member)
    total = sum(member.memory_cells.values())
    if not near or not total:
        return 0.0
    return sum(size for cell, size in member.memory_cells.items() if cell not in near) / total
