"""The trainers sleep: nothing is computed, and nobody else is the reason."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.account import Activity, RankAccount
from mooring.account.types import COMPUTING
from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import (
    ACCOUNT,
    line_of,
    most_have,
    names_of,
    step_ms,
    surely,
    trained,
)
from mooring.doctor.registry import CheckPage, run_check

#: A pause between polls takes some per cent; nobody trains faster by sleeping a sixth of the time.
_LEAST = 0.15
_PAGE = CheckPage(
    why="While the program sleeps nothing is computed, and whoever waits for it waits too: a pause "
    "that was meant for something else, a poll with a long interval, a limit on requests.",
    measured="Looks at what the main thread of each trainer does: in a system call that waits for "
    "time alone, with the line of the program. Reported when that is surely more than 15 % of the "
    "time of most trainers; of few, see straggler.",
    fix="Take the pause out, or move what it waits for into a thread that works ahead.",
    not_when="It waits for work on purpose: a queue that is empty, a limit that others set.",
)


@run_check("program-waits", "The program sleeps", _PAGE)
def program_waits(facts: RunFacts) -> Iterator[Found]:
    ranks = [rank for rank in trained(facts) if rank.step_s]
    # Who never computes is no trainer that sleeps too long, but one that waits for work.
    sleeping = [
        rank
        for rank in ranks
        if surely(rank, Activity.SLEEP) >= _LEAST and surely(rank, *COMPUTING, Activity.DEVICE) > 0
    ]
    if not sleeping or not most_have(sleeping, ranks):
        return
    worst = max(sleeping, key=lambda rank: rank.share(Activity.SLEEP))
    least = min(rank.share(Activity.SLEEP) for rank in sleeping)
    most = worst.share(Activity.SLEEP)
    line = line_of(worst, Activity.SLEEP)
    where = line.place if line is not None else "a line that is not the program's"
    yield Found(
        says=f"{worst.member} sleeps {100 * most:.0f} % of the time, at {where}",
        evidence=tuple(_evidence(worst, most, where, ranks)),
        remedy=Remedy("take the pause out, or let a thread wait", where=where),
        confidence=Confidence.CERTAIN,
        weight=min(0.95, most),
        members=names_of(sleeping),
        gain=Gain.of_freed(least, most, "the time that it sleeps"),
    )


def _evidence(
    rank: RankAccount, share: float, where: str, ranks: list[RankAccount]
) -> Iterator[Figure]:
    who = (rank.member,)
    yield Figure("sleeps", 100 * share, "%", ACCOUNT, who)
    yield Figure("at", where, "", ACCOUNT, who)
    yield Figure("looks", rank.looks, "", ACCOUNT, who)
    if (lasts := step_ms(ranks)) is not None:
        yield Figure("a step takes", lasts, "ms", ACCOUNT)
