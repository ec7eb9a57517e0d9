"""Which ended runs are kept, and removing the others: only what a run has made, never a live one.

A run's folder in the state home goes as a whole. One that its user put elsewhere (`moor run -o`)
goes only if the state home has it on record and it bears that run's mark, and of it only what
Mooring wrote there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mooring.record.made import MARK, made_files, made_folders, others
from mooring.record.runs import RunRecord, list_runs, open_run
from mooring.record.state_home import runs_dir, state_home

_MOST_NAMED = 10


@dataclass(frozen=True)
class EndedRun:
    """A run that is over, and since when (unix seconds); `pinned`: it is to be kept."""

    run: RunRecord
    ended_s: float
    pinned: bool = False


@dataclass(frozen=True)
class Removed:
    """A folder that is gone, or would be: how large it was, and what had to stay there."""

    run: str
    folder: Path
    freed_bytes: int
    stays: tuple[str, ...] = ()


def ended_runs() -> list[EndedRun]:
    """Every run of this user that is over, oldest first."""
    found = [EndedRun(run, _ended_s(run), run.pinned) for run in list_runs() if is_over(run)]
    return sorted(found, key=lambda each: (each.ended_s, each.run.info.id))


def is_over(run: RunRecord) -> bool:
    """Its process is gone; or it is a program's, which goes on, and the report is written.

    Of a run on another machine or in a container that has this home, too, only its own word is
    known.
    """
    if run.info.host != os.uname().nodename:
        return run.released_file.exists()
    if not run.alive():
        return run.is_dead() or run.released_file.exists()
    own_process = run.info.stops_by_signal
    return not own_process and run.released_file.exists() and run.report_file.exists()


@dataclass(frozen=True)
class KeptRuns:
    """How many ended runs are kept at most, for how long, on how much disk; None: no matter."""

    most_runs: int | None = None
    most_age_s: float | None = None
    most_bytes: int | None = None

    @property
    def limited(self) -> bool:
        return any(
            limit is not None for limit in (self.most_runs, self.most_age_s, self.most_bytes)
        )


def beyond(ended: Sequence[EndedRun], kept: KeptRuns, now_s: float) -> list[EndedRun]:
    """Those that any of the limits is exceeded by, oldest first. Runs that are pinned stay, and
    count. `ended` is in the order of time."""
    gone = []
    total_bytes = 0
    for number, each in enumerate(reversed(ended), start=1):
        over = kept.most_runs is not None and number > kept.most_runs
        over = over or (kept.most_age_s is not None and now_s - each.ended_s > kept.most_age_s)
        if kept.most_bytes is not None and not over:
            total_bytes += size_of(each.run.root)
            over = total_bytes > kept.most_bytes
        if over and not each.pinned:
            gone.append(each)
    return gone[::-1]


def to_remove(
    ended: Sequence[EndedRun], now_s: float, older_than_s: float | None, keep: int | None
) -> list[EndedRun]:
    """Those that ended longer ago than that and are not among the last `keep`; None: no matter.
    Runs that are pinned stay. `ended` is in the order of time.
    """
    surplus = ended if keep is None else ended[: max(0, len(ended) - keep)]
    return [
        each
        for each in surplus
        if not each.pinned and (older_than_s is None or now_s - each.ended_s > older_than_s)
    ]


def remove(ended: EndedRun, *, dry_run: bool) -> Removed:
    """Remove a run's folder and its entry in the state home."""
    run = ended.run
    entry = runs_dir() / run.info.id
    if run.root.parent == runs_dir().resolve() and not entry.is_symlink():
        removed = Removed(run.info.id, run.root, size_of(run.root))
        if not dry_run:
            _remove_whole(run.root)
        return removed
    return _remove_elsewhere(run, entry, dry_run=dry_run)


def _remove_whole(folder: Path) -> None:
    """Out of the list first: whatever happens then, no half of a run is taken for one."""
    trash = state_home() / "trash"
    trash.mkdir(exist_ok=True, mode=0o700)
    gone = trash / folder.name
    shutil.rmtree(gone, ignore_errors=True)
    folder.replace(gone)
    shutil.rmtree(trash)


def _remove_elsewhere(run: RunRecord, entry: Path, *, dry_run: bool) -> Removed:
    marked = entry.is_symlink() and (at_entry := open_run(entry)) is not None
    if not marked or at_entry is None or at_entry.info.id != run.info.id:
        return Removed(run.info.id, run.root, 0, ("everything: it bears another run's mark",))
    own, folders = list(made_files(run.root)), list(made_folders(run.root))
    mark = run.root / MARK
    removed = Removed(
        run.info.id, run.root, sum(map(size_of, [*own, mark])), _named(others(run.root))
    )
    if not dry_run:
        for path in own:
            path.unlink(missing_ok=True)
        for folder in folders:
            with suppress(OSError):  # something of the user's is there
                folder.rmdir()
        entry.unlink()
        # Last, so that a clean-up cut short can go on.
        mark.unlink()
        with suppress(OSError):
            run.root.rmdir()
    return removed


def _named(names: list[str]) -> tuple[str, ...]:
    more = len(names) - _MOST_NAMED
    return (*names[:_MOST_NAMED], f"{more} more") if more > 0 else tuple(names)


def forget_missing(*, dry_run: bool) -> list[Path]:
    """Entries of runs that were kept elsewhere and deleted by hand: links to nowhere."""
    found = [entry for entry in runs_dir().iterdir() if entry.is_symlink() and not entry.exists()]
    for entry in () if dry_run else found:
        entry.unlink(missing_ok=True)
    return found


def size_of(path: Path) -> int:
    """Bytes that the disk gets back with a path; a file that has another name stays there."""
    try:
        told = path.lstat()
        here = told.st_blocks * 512 if path.is_dir() or told.st_nlink == 1 else 0
        if path.is_symlink() or not path.is_dir():
            return here
        return here + sum(size_of(below) for below in path.iterdir())
    except OSError:
        return 0


def _ended_s(run: RunRecord) -> float:
    for path in (run.released_file, run.events_file):
        with suppress(OSError):
            return path.stat().st_mtime
    return run.info.created_s
