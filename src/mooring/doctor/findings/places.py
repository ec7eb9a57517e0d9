"""Where a member computes, for checks of what is near and what is far; how to bring it near."""

from __future__ import annotations

from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.doctor.finding import Remedy
from mooring.doctor.registry import DoesNotApply
from mooring.spec.edit import Change

#: Of the sightings of its threads; helpers that hardly run do not make a cell its home.
_LEAST_SHARE = 0.1
_SNIPPET = """numactl --cpunodebind={cell} --preferred={cell} python train.py
"""


def cells_of(facts: RunFacts, node: str) -> dict[int, int]:
    """CPU -> NUMA cell of a node."""
    return {place.cpu: place.cell for place in facts.topology.get(node, ())}


def several_cells(facts: RunFacts) -> None:
    """Raises Unknown where nothing can be far away."""
    if not any(len({place.cell for place in places}) > 1 for places in facts.topology.values()):
        raise DoesNotApply("its nodes have one NUMA cell, or do not tell")


def home(facts: RunFacts, member: MemberFacts) -> frozenset[int]:
    """The cells that its threads were seen on, as far as it may still run there."""
    cells = cells_of(facts, member.node)
    may = member.allowed_cpus or member.held_cpus
    seen = {cpu: count for cpu, count in member.seen_cpus.items() if cpu in cells and cpu in may}
    counts: dict[int, int] = {}
    for cpu, count in seen.items():
        counts[cells[cpu]] = counts.get(cells[cpu], 0) + count
    total = sum(counts.values())
    if not total:
        return frozenset(cells[cpu] for cpu in may if cpu in cells)
    return frozenset(cell for cell, count in counts.items() if count >= _LEAST_SHARE * total)


def bring_near(facts: RunFacts, member: MemberFacts, does: str, cell: int) -> Remedy:
    """CPUs of its own, which the plan takes from one cell with its cards and whose memory the
    launcher prefers; by hand where the job has them already or does not ask for whole ones."""
    whole = all(
        role.resources.cpu is not None and role.resources.cpu >= 1 and role.resources.cpu % 1 == 0
        for role in facts.job.spec.roles.values()
    )
    changes = (Change(("spec", "pinning"), "exclusive"),) if whole and not member.exclusive else ()
    return Remedy(
        does,
        changes,
        code=_SNIPPET.format(cell=cell),
        where="the command of the job" if not changes else "without Mooring: the command",
    )
