"""What Mooring itself has put into a run's folder, to the file: the rest is somebody else's.

A program may write beside its copied files, a user may keep notes among the logs. Only regular
files that Mooring names are its own; nothing is reached through a link, and a copy of the job's
files that has changed since is the program's work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from mooring.record.private import write_whole
from mooring.record.runs import RunRecord

MARK = "run.json"
FILES = (
    ".spare",
    "events.jsonl",
    "files.json",
    "fix.json",
    "hosts",
    "job.yaml",
    "launcher.pyz",
    "output.log",
    "pinned",
    "plan.json",
    "released",
    "report.json",
    "stacks-at-stall.txt",
    "start.json",
    "stop",
)
#: What folders hold, by name; M stands for a member.
IN_FOLDERS = {
    "bin": ("moor-rsh", "moor-rank"),
    "logs": ("M.log",),
    "samples": ("M.jsonl", ".M.spare"),
    "stacks": ("M.jsonl",),
    "members": (),
    "files": (),
}
_IN_MEMBERS = ("launcher.err", "hostfile", "rank-hosts.json", "rank-slots.json")
_CONTRACTS = "contract-*.json"
_MOST_BYTES = 64 << 20


def note_copies(run: RunRecord) -> None:
    """Write down which files were copied into the run, with their sizes and times."""
    copies = {
        path.relative_to(run.files_dir).as_posix(): [told.st_size, told.st_mtime_ns]
        for path in _walk(run.files_dir)
        if (told := path.lstat()) and not path.is_dir()
    }
    write_whole(run.copies_file, json.dumps(copies))


def made_files(root: Path) -> Iterator[Path]:
    """The files of a run's folder that Mooring made and that are still as it made them."""
    yield from (path for name in FILES if _is_file(path := root / name))
    members = sorted(path.name for path in _entries(root / "members") if _is_folder(path))
    for folder, names in IN_FOLDERS.items():
        if _is_folder(root / folder):
            for name in names:
                every = [name.replace("M", each) for each in members] if "M." in name else [name]
                yield from (path for each in every if _is_file(path := root / folder / each))
    for member in members:
        home = root / "members" / member
        named = [home / name for name in _IN_MEMBERS]
        yield from filter(_is_file, [*named, *sorted(home.glob(_CONTRACTS))])
    yield from _unchanged_copies(root)


def _unchanged_copies(root: Path) -> Iterator[Path]:
    folder = root / "files"
    try:
        with (root / "files.json").open("rb") as file:
            copies = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return
    if not isinstance(copies, dict) or not _is_folder(folder):
        return
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        told = path.lstat()
        if copies.get(name) == [told.st_size, told.st_mtime_ns] and not _is_folder(path):
            yield path
        elif path.suffix == ".pyc" and path.parent.name == "__pycache__" and _is_file(path):
            # What Python compiled from a copy of ours.
            source = path.parent.parent / f"{path.name.partition('.')[0]}.py"
            if source.relative_to(folder).as_posix() in copies:
                yield path


def made_folders(root: Path) -> Iterator[Path]:
    """The folders that hold what Mooring made, the innermost first: empty ones may go."""
    parents = {parent for path in made_files(root) for parent in path.relative_to(root).parents}
    known = {root / name for name in IN_FOLDERS} | {root / path for path in parents if path.name}
    found = [path for path in known if _is_folder(path)]
    members = [path for path in _entries(root / "members") if _is_folder(path)]
    yield from sorted({*found, *members}, key=lambda path: len(path.parts), reverse=True)


def others(root: Path) -> list[str]:
    """What is not Mooring's, by its name in the folder, or by the topmost folder of its own."""
    own = {root / MARK, *made_files(root)}
    folders = set(made_folders(root))
    foreign = {path for path in _walk(root) if path not in own and path not in folders}
    topmost = (path for path in foreign if path.parent not in foreign)
    return sorted(path.relative_to(root).as_posix() for path in topmost)


def _walk(folder: Path) -> Iterator[Path]:
    """Everything below, links as links."""
    waiting = [folder]
    while waiting:
        for entry in _entries(waiting.pop()):
            yield entry
            if _is_folder(entry):
                waiting.append(entry)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir()) if _is_folder(folder) else []
    except OSError:
        return []


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    return os.path.isfile(path) and not path.is_symlink()  # noqa: PTH113
