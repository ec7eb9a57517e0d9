"""A member on another NUMA cell than the network card that it talks through."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import CardTraffic, MemberFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found
from mooring.doctor.findings.measured import SAMPLES, names
from mooring.doctor.findings.places import bring_near, home, several_cells
from mooring.doctor.registry import CheckPage, Unknown, run_check
from mooring.model.cluster import format_cpus

#: In one direction. What crosses the sockets costs the same for each packet; at this rate those are
#: some 20,000 a second, and a CPU has no trouble with that wherever it is.
_LEAST_MBPS = 200.0
_PAGE = CheckPage(
    why="Every packet is written to memory on the card's side and fetched from the other: the link "
    "between the sockets is crossed twice, and the card's interrupts wake a thread far away. On "
    "fast cards that costs a part of the rate.",
    measured="Bytes of the member's TCP sockets by the card that has the socket's address, and the "
    "NUMA cell of that card (sysfs; of the cards below a bond or a VLAN), against the cells that "
    "the member's threads were seen on. Reported from 200 Mbit/s in one direction. RDMA goes past "
    "sockets and is not seen, nor is a card behind a container's virtual interface.",
    fix="Compute on the card's cell where a member mostly sends and receives: servers first. Or "
    "use the card of the cell that it is on, if there is one for each.",
    not_when="The GPU is on the other cell: nearness to the card that computes is worth more.",
)


@run_check("nic-far", "CPUs and network card on different NUMA cells", _PAGE)
def far(facts: RunFacts) -> Iterator[Found]:
    several_cells(facts)
    if not any(member.nics for member in facts.members):
        raise Unknown("no network card of a known NUMA cell was used")
    away = [
        (member, card)
        for member in facts.members
        for card in member.nics
        if _is_far(facts, member, card)
    ]
    if not away:
        return
    worst, card = max(away, key=lambda one: _mbps(one[1]))
    near = home(facts, worst)
    yield Found(
        says=f"{worst.name} computes on NUMA cell {format_cpus(near)} and talks through "
        f"{card.name} on cell {card.cell}",
        evidence=(
            Figure(f"{card.name} received", card.received_mbps, "Mbit/s", SAMPLES, (worst.name,)),
            Figure(f"{card.name} sent", card.sent_mbps, "Mbit/s", SAMPLES, (worst.name,)),
            Figure(f"cell of {card.name}", card.cell, "", SAMPLES, (worst.name,)),
            Figure("threads on cells", format_cpus(near), "", SAMPLES, (worst.name,)),
        ),
        remedy=bring_near(facts, worst, "compute on the card's own NUMA cell", card.cell),
        confidence=Confidence.POSSIBLE,
        weight=0.1,
        members=names(member for member, _ in away),
    )


def _is_far(facts: RunFacts, member: MemberFacts, card: CardTraffic) -> bool:
    near = home(facts, member)
    return bool(near) and card.cell not in near and _mbps(card) >= _LEAST_MBPS


def _mbps(card: CardTraffic) -> float:
    return max(card.received_mbps, card.sent_mbps)
