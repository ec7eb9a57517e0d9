"""Threads of a program wait for each other in Python."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import ACCOUNT, names_of, trained
from mooring.doctor.findings.trainers import at_least
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, run_check

#: A helper that wakes up now and then (progress bars, queues' feeders) costs less than a tenth.
_LEAST = 0.2
_PAGE = CheckPage(
    why="One thread of a Python process runs Python at a time. Threads that compute in Python take "
    "turns with the one that trains, which then waits with all CPUs free.",
    measured="Looks at all threads of a trainer: the main thread waits while another one is in "
    "Python. Reported when that is surely more than 20 % of the time.",
    fix="Processes instead of threads (`multiprocessing`, loader processes of the framework), or "
    "compiled code that lets go of the lock.",
    not_when="The interpreter has no such lock (free-threaded builds).",
)


@run_check(
    "gil-bound",
    "Threads wait for each other in Python",
    _PAGE,
    Causes(same_member=frozenset({"cpu-threads"})),
)
def gil_bound(facts: RunFacts) -> Iterator[Found]:
    seen = [
        rank
        for rank in trained(facts)
        if rank.threads.python >= 2 and at_least(rank.threads.gil_wait, rank.looks) >= _LEAST
    ]
    if not seen:
        return
    worst = max(seen, key=lambda rank: rank.threads.gil_wait)
    share = worst.threads.gil_wait
    helper = next((line for line in worst.lines if line.thread == "thread"), None)
    where = helper.place if helper is not None else "the program's threads"
    yield Found(
        says=f"{worst.member} waits {100 * share:.0f} % of the time while another of its "
        f"{worst.threads.python} threads is in Python: {where}",
        evidence=(
            Figure("waits for the interpreter", 100 * share, "%", ACCOUNT, (worst.member,)),
            Figure("threads in Python", worst.threads.python, "", ACCOUNT, (worst.member,)),
            Figure("the other one is at", where, "", ACCOUNT, (worst.member,)),
        ),
        remedy=Remedy("do it in a process of its own instead of a thread", where=where),
        confidence=Confidence.LIKELY,
        weight=min(0.95, share),
        members=names_of(seen),
        gain=Gain.of_freed(share / 2, share, "half or all of the time that it waits"),
    )
