"""All wait for a rank that does not even compute: it sleeps, is blocked, or waits for its data."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Found
from mooring.doctor.findings.accounts import trained
from mooring.doctor.findings.straggler_account import IDLE, LATE_BECAUSE, waited_for
from mooring.doctor.registry import CheckPage, DoesNotApply, run_check

_PAGE = CheckPage(
    why="Members meet in every step: while one sleeps or waits for something of its own, all "
    "others wait for it, with their CPUs and GPUs idle.",
    measured="Looks at each trainer: who waits for others while no bytes move, and who does not. "
    "Reported when the others surely wait more than 15 % of the time for a few that hardly wait "
    "themselves, and these do not compute more but sleep, load data, read or write files, or are "
    "blocked; with the line of the program.",
    fix="Look at that line: a pause, a slow disk or mount on that node, a lock, a request to "
    "another service. Let a thread do it ahead, or let all ranks share it.",
    not_when="Only one rank saves or evaluates, and seldom.",
)


@run_check("rank-blocked", "All wait for a rank that does not compute", _PAGE, LATE_BECAUSE)
def rank_blocked(facts: RunFacts) -> Iterator[Found]:
    if len(trained(facts)) < 2:
        raise DoesNotApply("one process trains")
    late = waited_for(facts)
    if late is not None and late.reason in IDLE:
        yield late.found
