"""Input as the account of a step tells it, whatever functions are called. No check itself."""

from __future__ import annotations

from mooring.account import Activity, RankAccount
from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import ACCOUNT, LEAST_LOOKS, line_of, names_of, surely

#: As for the looks of py-spy: collating batches in memory takes up to a tenth.
_LEAST = 0.2
REMOTE = ("nfs", "ceph", "fuse", "cifs", "smb", "lustre", "gluster", "beegfs", "9p", "afs", "gpfs")


def ranks_by_account(facts: RunFacts) -> list[RankAccount]:
    """Ranks whose threads were seen to wait for data, whatever the functions are called."""
    enough = [rank for rank in facts.account.ranks if rank.looks >= LEAST_LOOKS]
    return [one for one in enough if surely(one, Activity.INPUT) >= _LEAST]


def found_by_account(ranks: list[RankAccount]) -> Found:
    worst = max(ranks, key=lambda rank: rank.share(Activity.INPUT))
    share = worst.share(Activity.INPUT)
    line = line_of(worst, Activity.INPUT)
    place = line.place if line is not None else "the training program"
    kinds = sorted(worst.file_systems, key=lambda one: -worst.file_systems[one])
    remote = [kind for kind in kinds if kind.startswith(REMOTE)]
    where = f"; files are on {', '.join(remote)}" if remote else ""
    cpus = worst.cpus or 0.0
    evidence = [
        Figure("share of input", 100 * share, "%", ACCOUNT, (worst.member,)),
        Figure("seen most at", place, "", ACCOUNT, (worst.member,)),
        Figure("loader processes", worst.loaders, "", ACCOUNT, (worst.member,)),
        Figure("CPUs used", cpus, "", ACCOUNT, (worst.member,)),
        Figure("looks", worst.looks, "", ACCOUNT, (worst.member,)),
    ]
    does = "load the next batches beside the training: loader processes or threads, prefetching"
    if remote:
        does = f"copy the data to a local disk first, or {does}"
    return Found(
        says=f"{worst.member}: {100 * share:.0f} % of the time goes into input, at {place}{where}",
        evidence=tuple(evidence),
        remedy=Remedy(does, where=place),
        confidence=Confidence.LIKELY,
        weight=min(0.95, share),
        members=names_of(ranks),
        # Beside the training, input takes as long as before: what is left is the longer of both.
        gain=Gain.of_freed(min(share, 1 - share) * 0.7, share, "the time that it waits for data"),
    )
