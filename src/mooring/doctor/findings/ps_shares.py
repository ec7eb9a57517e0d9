"""What each parameter server moves: the figure that several checks look at. No check itself."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.doctor.facts import MemberFacts, NicFacts, RunFacts
from mooring.doctor.findings.measured import servers_of, used
from mooring.doctor.registry import DoesNotApply, Unknown

#: The busiest server's bytes against the mean. Partitioned tables were seen at 1.0 to 1.25 (small
#: variables still go round-robin); one table on one of two servers at 1.7, of four at 2.5 and more.
UNEVEN = 1.5
#: A server below this part of the mean serves nothing that matters.
IDLE = 0.02
#: Below this a run moves so little that its shares mean nothing.
_LEAST_BYTES_PER_S = 100_000


@dataclass(frozen=True)
class Shares:
    """Servers with their share of all bytes, busiest first. `uneven`: busiest ÷ mean of those that
    serve; `mean` is that of all."""

    of: tuple[tuple[MemberFacts, float], ...]
    mean: float
    serving: int
    uneven: float


def shares_of(facts: RunFacts) -> Shares:
    """Raises Unknown with fewer than two servers, or without traffic."""
    measured = used(servers_of(facts))
    if len(measured) < 2:
        raise DoesNotApply("there is one parameter server only")
    rates = [(member, use.moved_bytes / use.span_s) for member, use in measured]
    total = sum(rate for _, rate in rates)
    if total < _LEAST_BYTES_PER_S:
        raise Unknown("the servers moved next to nothing")
    shares = sorted(((member, rate / total) for member, rate in rates), key=lambda one: -one[1])
    mean = 1 / len(shares)
    serving = [share for _, share in shares if share >= IDLE * mean]
    # A single server that serves while all others idle is the extreme of being uneven.
    level = sum(serving) / len(serving) if len(serving) > 1 else mean
    return Shares(tuple(shares), mean, len(serving), shares[0][1] / level)


def card_of(facts: RunFacts, member: MemberFacts) -> NicFacts | None:
    """The card of the member's node, if it has a limit."""
    return next((nic for nic in facts.nics if nic.node == member.node and nic.limit_mbps), None)
