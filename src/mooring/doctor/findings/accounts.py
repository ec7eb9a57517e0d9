"""What the checks of accounts share: whose time was looked at, and whether all or few have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from mooring.account import Activity, LineShare, RankAccount
from mooring.doctor.facts import RunFacts
from mooring.doctor.findings.trainers import at_least
from mooring.doctor.registry import Unknown

ACCOUNT = "looks at its threads"
#: Fewer looks tell nothing of a share; how sure it is of so many, `surely` says.
LEAST_LOOKS = 25
#: A function with so much of a trainer's time may be anything.
_MUCH = 0.2
_OWN_TIME = (Activity.OWN, Activity.DISK, Activity.SLEEP)


def trained(facts: RunFacts) -> list[RankAccount]:
    """Ranks that train, with enough looks. Raises Unknown with the reason if there is none."""
    account = facts.account
    ranks = [trainer for trainer in account.trainers if trainer.looks >= LEAST_LOOKS]
    if not ranks:
        raise Unknown(account.note or "too few looks at the trainers' threads")
    return ranks


def surely(rank: RankAccount, *activities: Activity) -> float:
    """What they take of a rank's time with some certainty."""
    return at_least(min(1.0, rank.share(*activities)), rank.looks)


def names_of(ranks: Iterable[RankAccount]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rank.member for rank in ranks))


def most_have(having: Sequence[RankAccount], ranks: Sequence[RankAccount]) -> bool:
    """It is the program's, not that of some ranks: those are stragglers."""
    return 2 * len(having) > len(ranks)


@dataclass(frozen=True)
class Function:
    """A function of the program with what its lines take of a rank's time."""

    file: str
    name: str
    share: float
    lines: tuple[LineShare, ...]

    @property
    def line(self) -> LineShare:
        """The one that takes most."""
        return max(self.lines, key=lambda line: line.share)


def functions(
    rank: RankAccount, share: Callable[[LineShare], float], *, in_helpers: bool = False
) -> list[Function]:
    """Functions by `share` of their lines, most first; without those of helper threads."""
    by_name: dict[tuple[str, str], list[LineShare]] = {}
    for line in rank.lines:
        if share(line) > 0 and (in_helpers or not line.thread):
            # What stands inside a function, a comprehension for one, is a part of it.
            name = line.function.partition(".<locals>")[0]
            by_name.setdefault((line.file, name), []).append(line)
    found = [
        Function(file, name, sum(share(line) for line in lines), tuple(lines))
        for (file, name), lines in by_name.items()
    ]
    return sorted(found, key=lambda rank: -rank.share)


def own_share(line: LineShare) -> float:
    """What the line computes in the program's own code, with its part of the waits for a CPU: on a
    busy machine all that computes waits in proportion."""
    own, framework = line.by.get(Activity.OWN, 0.0), line.by.get(Activity.FRAMEWORK, 0.0)
    if own <= 0:
        return 0.0
    return own + line.by.get(Activity.CPU_WAIT, 0.0) * own / (own + framework)


def line_of(rank: RankAccount, *activities: Activity) -> LineShare | None:
    """The line of the program at which these take most."""
    known = [line for line in rank.lines if _by(line, activities) > 0]
    return max(known, key=lambda rank: _by(rank, activities), default=None)


def _by(line: LineShare, activities: Iterable[Activity]) -> float:
    return sum(line.by.get(activity, 0.0) for activity in activities)


def unnamed(facts: RunFacts) -> str:
    """What the looks saw much of and no name explains, for checks that go by names; or nothing."""
    for rank in facts.account.trainers:
        trains = {line.function for line in rank.lines if line.by.get(Activity.FRAMEWORK, 0.0) > 0}
        for function in functions(rank, lambda line: _by(line, _OWN_TIME)):
            if function.share >= _MUCH and function.name not in trains:
                place = function.line.place
                return f"{100 * function.share:.0f} % of {rank.member}'s time is in {place}"
    return ""


def step_ms(ranks: Sequence[RankAccount]) -> float | None:
    known = [rank.step_s for rank in ranks if rank.step_s]
    return 1000 * median(known) if known else None
