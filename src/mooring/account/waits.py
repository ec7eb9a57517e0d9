"""Whom a rank waits for, and what that one does meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from mooring.account.types import Activity, LineShare, WaitFor
from mooring.account.weighing import RankSeen

#: A rank that waits less than the others by this share of the time is whom they wait for.
_WAITS_LESS = 0.1


def waits_of(rank: RankSeen, all_ranks: Sequence[RankSeen]) -> list[WaitFor]:
    """Whom it waits for: as its connections tell, or the one that does not wait itself."""
    shares: dict[tuple[str, int | None], float] = {}
    for names, share in rank.named.items():
        whom = _whom(rank, names, all_ranks)
        key = ("", None) if whom is None else (whom.member.name, whom.seen.rank)
        shares[key] = shares.get(key, 0.0) + share
    found = []
    for (name, number), share in shares.items():
        other = next(
            (
                other_rank
                for other_rank in all_ranks
                if (other_rank.member.name, other_rank.seen.rank) == (name, number)
            ),
            None,
        )
        doing, line = _busy_with(other) if other is not None else (None, None)
        several = other is not None and len(other.member.ranks) > 1
        found.append(WaitFor(name, share, number if several else None, doing, line))
    return sorted(found, key=lambda wait: -wait.share)


def _whom(rank: RankSeen, names: Sequence[str], all_ranks: Sequence[RankSeen]) -> RankSeen | None:
    others = [other for other in all_ranks if other is not rank]
    named = [other for other in others if other.member.name in names]
    leads = rank.member.leads
    servers = [] if leads else [other for other in named if other.member.serves]
    named = [other for other in named if not (leads and other.member.serves)]
    if len(names) == 1 and len(named) == 1:
        return named[0]
    candidates = servers or named or [other for other in others if not other.member.serves]
    if not candidates or rank.member.serves:
        return None
    least = min(candidates, key=_idle)
    rest = [_idle(candidate) for candidate in candidates if candidate is not least]
    if not rest:
        return least if _idle(rank) - _idle(least) > _WAITS_LESS or servers else None
    less = median(rest) - _idle(least) > _WAITS_LESS
    return least if less and (servers or _idle(rank) - _idle(least) > _WAITS_LESS) else None


def _idle(rank: RankSeen) -> float:
    return rank.parts.get(Activity.OTHERS, 0.0) + rank.parts.get(Activity.NETWORK, 0.0)


def _busy_with(rank: RankSeen) -> tuple[Activity | None, LineShare | None]:
    """What it does most beside waiting for others; time without a CPU counts for what it delays."""
    work: dict[Activity, float] = {}
    for one in rank.weighed:
        work[one.doing.activity] = work.get(one.doing.activity, 0.0) + one.weight
    for waits in (Activity.OTHERS, Activity.UNSEEN):
        work.pop(waits, None)
    if not work:
        return None, None
    most = max(work, key=lambda activity: work[activity])
    lines = [line for line in rank.lines if line.by.get(most, 0.0) > 0]
    return most, max(lines, key=lambda line: line.by.get(most, 0.0), default=None)
