"""Several parameter servers behind one card while other cards are idle."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import EVENTS, PLAN, names, servers_of
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, Unknown, run_check
from mooring.spec.edit import Change

#: Of the time, as for ps-nic.
_BUSY = 0.5
#: A card with so much less to do could take a server: what it has to do now is a worker's traffic,
#: of which the part with that server then stays on the node.
_IDLE = 0.7
_PAGE = CheckPage(
    why="Servers on one node share its card: together they are no faster than one, and each "
    "added worker makes it worse.",
    measured="Servers of each node in the plan, and bytes through its card against the limit "
    "while the job trained. Reported when a card with several servers is in use half of the time "
    "and another node's card has at most 70 % of that.",
    fix="`placement.preset: spread-ps`, or a rule that keeps servers apart.",
    not_when="The servers sit with the workers on the only node: then nothing goes through the "
    "card.",
)


@run_check(
    "ps-one-nic",
    "Several parameter servers share a network card",
    _PAGE,
    Causes(anywhere=frozenset({"ps-hot", "ps-whole-table"})),
)
def one_nic(facts: RunFacts) -> Iterator[Found]:
    servers = servers_of(facts)
    cards = {nic.node: nic.busy for nic in facts.nics if nic.busy is not None}
    if len(cards) < 2:
        raise Unknown("fewer than two network cards with a limit are known")
    for node, busy in cards.items():
        here = [member for member in servers if member.node == node]
        if len(here) < 2 or busy < _BUSY:
            continue
        spare = [other for other, share in cards.items() if other != node and share <= _IDLE * busy]
        if not spare:
            continue
        # One server stays: each card that can take another divides the traffic once more.
        parts = min(len(here), 1 + len(spare))
        yield Found(
            says=f"{len(here)} servers share the card of {node}, {100 * busy:.0f} % full",
            evidence=(
                Figure(f"servers on {node}", len(here), "", PLAN, names(here)),
                *(
                    Figure(f"card of {one}", 100 * share, "% full", EVENTS)
                    for one, share in sorted(cards.items(), key=lambda pair: -pair[1])[:8]
                ),
            ),
            remedy=Remedy(
                "spread the servers over nodes",
                (Change(("spec", "placement", "preset"), "spread-ps"),),
            ),
            confidence=Confidence.CERTAIN,
            weight=min(0.9, busy * (1 - 1 / parts)),
            members=names(here),
            gain=Gain.of_freed(
                0.3 * busy * (1 - 1 / parts),
                busy * (1 - 1 / parts),
                f"{parts} cards would carry the traffic of one",
            ),
        )
