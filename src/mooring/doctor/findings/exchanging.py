"""Members that spend their steps waiting for each other although nothing is full. No check itself.

What is left then is the exchange itself: its round trips, and turns of processes on few CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from mooring.account import Activity
from mooring.account.types import COMPUTING
from mooring.doctor.facts import RunFacts
from mooring.doctor.findings.accounts import surely, trained
from mooring.doctor.findings.straggler_account import waited_for
from mooring.doctor.findings.trainers import at_least

#: Of every rank's time.
_LEAST = 0.5
#: Of the machine's CPUs: beyond it members wait for those that have one.
_MOST_CPUS = 0.75
_FULL_CARD = 0.4


@dataclass(frozen=True)
class Exchange:
    """Shares of a rank's time, medians of all ranks."""

    ranks: int
    waiting: float
    computing: float


def exchange_of(facts: RunFacts) -> Exchange | None:
    """None where the ranks do not mostly exchange, or something else explains it. Raises Unknown
    where nobody looked."""
    ranks = trained(facts)
    if len(ranks) < 2 or facts.servers:
        return None
    waits = (Activity.OTHERS, Activity.NETWORK)
    if min(surely(rank, *waits) for rank in ranks) < _LEAST or waited_for(facts):
        return None
    if any((card.busy or 0.0) >= _FULL_CARD for card in facts.nics):
        return None
    machine = facts.machine
    # Ranks that poll keep CPUs busy without work.
    spins = sum(rank.spins for rank in ranks)
    if machine is None or machine.used_cpus - spins > _MOST_CPUS * machine.cpus:
        return None
    waiting = median(rank.share(*waits) for rank in ranks)
    looks = min(rank.looks for rank in ranks)
    return Exchange(
        len(ranks),
        at_least(min(1.0, waiting), looks),
        median(rank.share(*COMPUTING) for rank in ranks),
    )
