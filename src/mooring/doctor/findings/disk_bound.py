"""Files take a part of the trainers' time, whatever they are read or written for."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.account import Activity, LineShare, RankAccount
from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import ACCOUNT, functions, line_of, names_of, trained
from mooring.doctor.findings.trainers import at_least
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, run_check

#: Logs and a checkpoint now and then stay below a twentieth.
_LEAST = 0.1
_PAGE = CheckPage(
    why="While the main thread reads or writes a file it does not train, and whoever waits for it "
    "waits too.",
    measured="Looks at what the main thread of each trainer does: in a system call on a file, or "
    "in the kernel waiting for a disk, with the line of the program. Reported when that is surely "
    "more than 10 % of a trainer's time.",
    fix="Less often, larger pieces, a local disk, or a thread that reads ahead and writes behind.",
    not_when="Data is read: see input-bound.",
)
#: Calls that copy to or from the system's cache of a file: that is done on a CPU.
_ON_FILES = frozenset(
    {"write", "writelines", "fsync", "fdatasync", "flush", "truncate", "read", "readline", "tofile"}
)
_CAUSES = Causes(
    same_member=frozenset(
        {"checkpoint-often", "logging-often", "evaluation-often", "input-bound", "mem-limit"}
    )
)


@run_check("disk-bound", "Files take a part of the time", _PAGE, _CAUSES)
def disk_bound(facts: RunFacts) -> Iterator[Found]:
    ranks = trained(facts)
    seen = [rank for rank in ranks if at_least(_share(rank), rank.looks) >= _LEAST]
    if not seen:
        return
    worst = max(seen, key=_share)
    share = _share(worst)
    line = line_of(worst, Activity.DISK)
    where = line.place if line is not None else "a line that is not the program's"
    kinds = ", ".join(sorted(worst.file_systems, key=lambda one: -worst.file_systems[one])[:3])
    yield Found(
        says=f"{worst.member}: {100 * share:.0f} % of the time goes into files, at {where}",
        evidence=(
            Figure("share of files", 100 * share, "%", ACCOUNT, (worst.member,)),
            Figure("at", where, "", ACCOUNT, (worst.member,)),
            *([Figure("they are on", kinds, "", ACCOUNT, (worst.member,))] if kinds else []),
            Figure("looks", worst.looks, "", ACCOUNT, (worst.member,)),
        ),
        remedy=Remedy("do it less often, or in a thread beside the training", where=where),
        confidence=Confidence.LIKELY,
        weight=min(0.95, share),
        members=names_of(seen),
        gain=Gain.of_freed(share / 2, share, "half or all of the time that files take"),
    )


def _share(rank: RankAccount) -> float:
    """Waits for files, with what functions that wait for them compute in reading and writing."""
    waits = rank.share(Activity.DISK)
    beside = sum(
        line.share - line.by.get(Activity.DISK, 0.0)
        for function in functions(rank, _on_files)
        if any(line.by.get(Activity.DISK, 0.0) > 0 for line in function.lines)
        for line in function.lines
        if _ON_FILES.intersection(line.calls)
    )
    return min(1.0, waits + beside)


def _on_files(line: LineShare) -> float:
    waits = line.by.get(Activity.DISK, 0.0) > 0
    return line.share if waits or _ON_FILES.intersection(line.calls) else 0.0
