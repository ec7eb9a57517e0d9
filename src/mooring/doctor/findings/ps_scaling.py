"""More workers would not be faster: predicted before anybody adds them."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import EVENTS, JOB, SAMPLES, names, servers_of, used
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, Unknown, run_check

#: From here on, a third more workers fill the servers up.
_BUSY = 0.75
_PAGE = CheckPage(
    why="Workers share what the servers can carry. Once that is used up, each added worker makes "
    "the others slower by what it gains.",
    measured="The fullest of the servers' cards, and of CPU sets or quotas that are a server's "
    "own, while the job trained. At a load u with W workers, W ÷ u workers fill it; reported "
    "from u = 0.75 on.",
    fix="First more room at the servers (see ps-hot, ps-one-nic, ps-nic, ps-cpu), then more "
    "workers.",
)


@run_check(
    "ps-scaling",
    "More workers would gain nothing",
    _PAGE,
    Causes(anywhere=frozenset({"ps-hot", "ps-one-nic", "ps-nic", "ps-cpu", "ps-whole-table"})),
)
def scaling(facts: RunFacts) -> Iterator[Found]:
    servers = servers_of(facts)
    workers = facts.workers
    nodes = {member.node for member in servers}
    loads = [
        (f"card of {nic.node}", nic.busy, EVENTS)
        for nic in facts.nics
        if nic.busy is not None and nic.node in nodes
    ]
    for member, use in used(servers):
        if (member.exclusive or member.quota_millis is not None) and use.runnable is not None:
            wanted = min(use.runnable, member.usable_cpus)
            loads.append((f"CPUs of {member.name}", wanted / member.usable_cpus, SAMPLES))
    if not loads or not workers:
        raise Unknown("no limit of the servers is known")
    what, load, source = max(loads, key=lambda one: one[1])
    if load < _BUSY:
        return
    most = max(len(workers), floor(len(workers) / min(1.0, load)))
    yield Found(
        says=f"{what}: {100 * load:.0f} % in use by {len(workers)} workers; {most} fill it up",
        evidence=(
            Figure(what, 100 * load, "% in use", source),
            Figure("workers", len(workers), "", JOB, names(workers)),
        ),
        remedy=Remedy("make room at the servers before adding workers"),
        confidence=Confidence.LIKELY,
        weight=0.1,
        gain=Gain(1.0, max(1.0, 1 / load), f"what is left of {what}"),
    )
