"""Who makes the others wait, by the accounts of all ranks, and what it does meanwhile.

No check itself: `straggler` names ranks that compute or wait for a CPU, `rank-blocked` those that
do neither. In a collective all wait for the last: it is the one that hardly waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from mooring.account import Activity, RankAccount
from mooring.account.types import COMPUTING
from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import ACCOUNT, line_of, names_of, surely, trained
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import Unknown

#: Of the others' time. Ranks of healthy runs on a busy machine wait for each other in turn: each
#: of them as much as the others.
_LEAST = 0.15
#: What the one that is waited for waits itself, against the others.
_HARDLY = 0.5
#: Of a step, beyond the others: more than what looks miss.
_COMPUTES_MORE = 0.1
#: What a rank does that is late without a CPU.
IDLE = frozenset({Activity.SLEEP, Activity.INPUT, Activity.DISK, Activity.UNSEEN, Activity.DEVICE})
#: Activities that can make a rank late, as a reader would say them.
_DOES = {
    Activity.SLEEP: "it sleeps",
    Activity.INPUT: "it loads data or waits for it",
    Activity.DISK: "it reads or writes files",
    Activity.CPU_WAIT: "it waits for a CPU",
    Activity.NETWORK: "it waits for bytes",
    Activity.OWN: "it computes longer, in code of the program",
    Activity.FRAMEWORK: "it computes longer, in the framework",
    Activity.DEVICE: "it waits for its device",
    Activity.UNSEEN: "it does something that the looks do not show",
}
_ADVICE = {
    Activity.SLEEP: "take the pause out",
    Activity.INPUT: "load its data beside the training, from where it is near",
    Activity.DISK: "do it less often, or in a thread beside the training",
    Activity.CPU_WAIT: "give it CPUs that nobody else uses",
    Activity.NETWORK: "look at its card and its place",
    Activity.OWN: "give each rank the same work",
    Activity.FRAMEWORK: "give each rank the same work, threads and CPUs",
}

#: What may lie behind a late rank.
LATE_BECAUSE = Causes(
    anywhere=frozenset({"ps-hot", "ps-nic", "ps-one-nic", "comm-bound", "machine-busy"}),
    same_member=frozenset(
        {
            "checkpoint-often",
            "logging-often",
            "evaluation-often",
            "disk-bound",
            "input-bound",
            "own-code",
            "program-waits",
            "gil-bound",
            "cpu-throttled",
            "cpu-neighbour",
            "cpu-starved",
            "cpu-threads",
            "cpu-overlap",
            "cpu-not-pinned",
            "mem-limit",
            "mem-remote",
            "hang",
        }
    ),
)


@dataclass(frozen=True)
class Late:
    """The rank that is waited for, as a finding, and what it does most beyond the others."""

    reason: Activity
    found: Found


def waited_for(facts: RunFacts) -> Late | None:
    """None where ranks do not wait for each other, or nobody looked."""
    try:
        ranks = trained(facts)
    except Unknown:
        return None
    if len(ranks) < 2:
        return None
    late, others = _late(ranks)
    if not late:
        return None
    worst = min(late, key=lambda rank: rank.share(Activity.OTHERS))
    waiting = median(rank.share(Activity.OTHERS) for rank in others)
    reason, extra = _reason(worst, others)
    if reason is Activity.NETWORK:
        # Who gets how much of a full card is chance: the card is the cause, and has a finding.
        return None
    if reason is Activity.CPU_WAIT and any(rank.node == worst.node for rank in others):
        # So it is with CPUs that ranks of a node share.
        return None
    line = line_of(worst, *_activities(reason))
    place = line.place if line is not None else ""
    where = f", at {place}" if place else ""
    evidence = [
        Figure("the others wait for others", 100 * waiting, "%", ACCOUNT, names_of(others)),
        Figure("it waits for them", 100 * worst.share(Activity.OTHERS), "%", ACCOUNT, _who(worst)),
        Figure(
            f"{reason.value}, beyond the others",
            100 * extra,
            "% of a step",
            ACCOUNT,
            _who(worst),
        ),
    ]
    if place:
        evidence.append(Figure("at", place, "", ACCOUNT, _who(worst)))
    freed = min(waiting, extra)
    found = Found(
        says=f"the others wait {100 * waiting:.0f} % of the time for {_named(worst)} on "
        f"{worst.node}: {_DOES.get(reason, 'it is late')}{where}",
        evidence=tuple(evidence),
        remedy=Remedy(
            _ADVICE.get(reason, "find out what it does"),
            where=f"{_named(worst)} on {worst.node}{where}",
        ),
        confidence=Confidence.CERTAIN if extra >= waiting / 2 else Confidence.LIKELY,
        weight=min(0.95, waiting),
        members=names_of(late),
        gain=Gain.of_freed(0.7 * freed, max(waiting, freed), "the time that others wait for it"),
    )
    return Late(reason, found)


def _late(ranks: Sequence[RankAccount]) -> tuple[list[RankAccount], list[RankAccount]]:
    """Those that are waited for, fewer than half or one of two, and the others."""
    ordered = sorted(ranks, key=lambda rank: rank.share(Activity.OTHERS))
    waits = [rank.share(Activity.OTHERS) for rank in ordered]
    # The largest step in the order parts those who wait from those who are waited for.
    most = len(ordered) // 2
    place = max(range(1, most + 1), key=lambda at: waits[at] - waits[at - 1])
    late, others = ordered[:place], ordered[place:]
    least = min(surely(rank, Activity.OTHERS) for rank in others)
    if least < _LEAST or waits[place - 1] > _HARDLY * waits[place]:
        return [], []
    return late, others


def _reason(late: RankAccount, others: Sequence[RankAccount]) -> tuple[Activity, float]:
    """What it does most beyond the others; a step has the same length for all."""
    extras: dict[Activity, float] = {
        activity: late.share(activity) - median(rank.share(activity) for rank in others)
        for activity in Activity
        if activity is not Activity.OTHERS
    }
    reason = max(extras, key=lambda activity: extras[activity])
    computes = max(COMPUTING, key=lambda activity: extras[activity])
    if reason is Activity.CPU_WAIT and extras[computes] >= _COMPUTES_MORE:
        # Who computes more also waits for a CPU more often.
        return computes, extras[reason] + extras[computes]
    return reason, max(0.0, extras[reason])


def _activities(reason: Activity) -> tuple[Activity, ...]:
    return COMPUTING if reason in COMPUTING else (reason,)


def _who(rank: RankAccount) -> tuple[str, ...]:
    return (rank.member,)


def _named(rank: RankAccount) -> str:
    return f"{rank.member} (its process {rank.rank})" if rank.rank else rank.member
