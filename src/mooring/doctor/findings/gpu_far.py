"""A member on another NUMA cell than its card."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import GpuFacts, MemberFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found
from mooring.doctor.findings.measured import EVENTS, SAMPLES, names
from mooring.doctor.findings.places import bring_near, home, several_cells
from mooring.doctor.registry import CheckPage, DoesNotApply, Unknown, run_check
from mooring.model.cluster import format_cpus

_PAGE = CheckPage(
    why="Batches that are copied to the card, and every kernel that is started, cross the link "
    "between the sockets. Copies get slower, and short kernels start later.",
    measured="The NUMA cell that each card hangs off (its PCI device in sysfs) against the cells "
    "that the member's threads were seen on.",
    fix="`pinning: exclusive`: the plan takes CPUs from the cells of the member's cards. On "
    "Kubernetes the kubelet does it: `topologyManagerPolicy: single-numa-node` with the static CPU "
    "policy.",
    not_when="The cell of the card has no free CPU, and the card computes far longer than it is "
    "fed.",
)


@run_check("gpu-far", "CPUs and GPU on different NUMA cells", _PAGE)
def far(facts: RunFacts) -> Iterator[Found]:
    if not any(member.gpus for member in facts.members):
        raise DoesNotApply("no GPU was seen")
    several_cells(facts)
    if not any(card.cell is not None for member in facts.members for card in member.gpus):
        raise Unknown("the machine does not tell which NUMA cell its GPUs are on")
    away = [(member, cards) for member in facts.members if (cards := _far_cards(facts, member))]
    if not away:
        return
    worst, cards = max(away, key=lambda one: len(one[1]))
    near = home(facts, worst)
    cell = cards[0].cell or 0
    listed = ", ".join(str(card.index) for card in cards)
    yield Found(
        says=f"{worst.name} computes on NUMA cell {format_cpus(near)}, its GPU {listed} is on "
        f"cell {cell}",
        evidence=(
            *(
                Figure(f"cell of GPU {card.index}", card.cell or 0, "", SAMPLES, (worst.name,))
                for card in cards[:8]
            ),
            Figure("threads on cells", format_cpus(near), "", SAMPLES, (worst.name,)),
            Figure("CPUs of the node", len(facts.topology[worst.node]), "", EVENTS),
        ),
        remedy=bring_near(facts, worst, "compute on the card's own NUMA cell", cell),
        confidence=Confidence.LIKELY,
        weight=0.15,
        members=names(member for member, _ in away),
    )


def _far_cards(facts: RunFacts, member: MemberFacts) -> list[GpuFacts]:
    near = home(facts, member)
    return [
        card for card in member.gpus if near and card.cell is not None and card.cell not in near
    ]
