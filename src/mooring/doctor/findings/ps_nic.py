"""The card in front of a parameter server is full."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.hubs import hubs
from mooring.doctor.findings.measured import EVENTS, names
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, DoesNotApply, Unknown, run_check
from mooring.spec.edit import Change

#: Of the time: while the card is in use somebody waits for it; a card of ten times the speed would
#: make such a job 1.8 times as fast.
_FULL = 0.5
_PAGE = CheckPage(
    why="Every step waits for the server's card. Faster workers, or more of them, wait longer.",
    measured="Bytes through the card of each node that has servers while the job trained, "
    "against its limit, by the fuller direction of each short interval: a card that is filled in "
    "turns, in and then out, is full. Half of the time is reported. Without parameter servers the "
    "same is asked of the node that carries everybody's traffic: a master, a server of the "
    "program's own.",
    fix="More servers on other nodes, or fewer bytes: rows instead of whole tables, larger "
    "batches, servers beside the workers (`placement.preset: colocate`), so that a part of the "
    "traffic stays on the node.",
    not_when="One server is hot (ps-hot) or several share the card (ps-one-nic): do that first.",
)


@run_check(
    "ps-nic",
    "A parameter server's network card is full",
    _PAGE,
    Causes(anywhere=frozenset({"ps-hot", "ps-one-nic", "ps-whole-table"})),
)
def nic_full(facts: RunFacts) -> Iterator[Found]:
    servers = hubs(facts)
    if not servers:
        raise DoesNotApply("no member serves the others")
    cards = [nic for nic in facts.nics if nic.busy is not None]
    if not cards:
        raise Unknown("no limit of a network card is known")
    serving = {member.node for member in servers}
    full = [card for card in cards if card.node in serving and (card.busy or 0.0) >= _FULL]
    if not full:
        return
    worst = max(full, key=lambda card: card.busy or 0.0)
    behind = [member for member in servers if member.node in {card.node for card in full}]
    role, count = behind[0].role, len(servers)
    more = len(cards) > len(serving) and bool(facts.servers)
    yield Found(
        says=f"the card of {worst.node}, where {', '.join(names(behind)[:4])} serves the others, "
        f"is in use {100 * (worst.busy or 0.0):.0f} % of the time"
        + (" in turns: in, then out" if worst.alternates else ""),
        evidence=tuple(
            Figure(
                f"card of {card.node}",
                100 * (card.busy or 0.0),
                f"% in use (in {card.received_mbps:.0f}, out {card.sent_mbps:.0f} of "
                f"{card.limit_mbps} Mbit/s)",
                EVENTS,
                tuple(member.name for member in servers if member.node == card.node),
            )
            for card in sorted(cards, key=lambda card: -(card.busy or 0.0))[:8]
        ),
        remedy=Remedy(
            "divide the traffic among one more server on another node"
            if more
            else "move fewer bytes, or put servers beside the workers",
            (Change(("spec", "roles", role, "replicas"), count + 1),) if more else (),
            where="" if more else "the model's lookups, its batch, or placement.preset: colocate",
        ),
        confidence=Confidence.CERTAIN,
        weight=min(0.9, 0.9 * (worst.busy or 0.0)),
        members=names(behind),
        gain=_gain(min(1.0, worst.busy or 0.0), count if more else None),
    )


def _gain(busy: float, servers: int | None) -> Gain:
    """`servers`: how many there are, if one more is advised."""
    if servers is None:
        return Gain.of_freed(0.5 * busy, 0.9 * busy, "a card of ten times the speed")
    part = 1 / (servers + 1)
    return Gain.of_freed(0.3 * busy * part, busy * part, "the same bytes through one more card")
