"""Members that all others talk to: servers by their role, or by the traffic. No check itself."""

from __future__ import annotations

from mooring.doctor.facts import MemberFacts, RunFacts

#: A ring or a tree loads all cards alike; the centre of a star carries what all others do together.
_OTHERS = 0.75
_LEAST_CARDS = 3
_LEAST_BUSY = 0.3


def hubs(facts: RunFacts) -> tuple[MemberFacts, ...]:
    """Parameter servers; without them the members on the node that carries everybody's traffic:
    a master in MPI, a server that the program makes itself. Empty if there is none."""
    if facts.servers:
        return facts.servers
    cards = sorted(
        (nic for nic in facts.nics if nic.busy is not None), key=lambda one: -(one.busy or 0.0)
    )
    if len(cards) < _LEAST_CARDS:
        return ()
    first, second = cards[0].busy or 0.0, cards[1].busy or 0.0
    if first < _LEAST_BUSY or second > _OTHERS * first:
        return ()
    return tuple(member for member in facts.members if member.node == cards[0].node)
