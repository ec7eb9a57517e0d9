"""What a trainer and its loaders read: bytes and calls, and the file systems of what is open.

From /proc. `rchar` counts every read(2), from pipes and sockets too; `read_bytes` only what came
from a disk (or a network file system), not from the page cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from mooring.record.journal import JsonValue

#: Files that programs consist of, and what is no storage.
_NOT_DATA = ("/dev/", "/proc/", "/sys/", "/usr/", "/memfd:", "/run/")
_CODE = (".so", ".py", ".pyc", ".pyz", ".jsonl", ".log")
_MOST_NAMES = 1000
#: At the open files of one process in a look; one takes some tenths of a millisecond.
_GLANCES = 8


@dataclass(frozen=True)
class Counts:
    """Totals of one process; `wanted_s`: CPU time that its main thread used or waited for."""

    asked_bytes: int = 0
    calls: int = 0
    fetched_bytes: int = 0
    wanted_s: float = 0.0


def parse_io(text: str) -> Counts:
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return Counts(
        int(fields.get("rchar", 0)), int(fields.get("syscr", 0)), int(fields.get("read_bytes", 0))
    )


def parse_wanted_s(text: str) -> float:
    """Of a thread's schedstat: the time for which it ran, or was ready to and had no CPU."""
    ran_ns, waited_ns = text.split()[:2]
    return (int(ran_ns) + int(waited_ns)) / 1e9


def parse_mounts(text: str) -> list[tuple[str, str]]:
    """(mount point, type of file system) of /proc/PID/mountinfo; later ones cover earlier ones."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words = before.split()
        if len(words) > 4 and after:
            found.append((words[4].replace("\\040", " "), after.split()[0]))
    return found


def file_system(path: str, mounts: Iterable[tuple[str, str]]) -> str:
    best, kind = -1, ""
    for point, name in mounts:
        inside = point == "/" or path == point or path.startswith(f"{point}/")
        if inside and len(point) >= best:
            best, kind = len(point), name
    return kind


@dataclass
class Reading:
    """Grows from look to look; counts are differences from the first look at each process."""

    first: dict[int, Counts] = field(default_factory=dict)
    last: dict[int, Counts] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    kinds: dict[str, int] = field(default_factory=dict)
    loaders: int = 0
    trainer: int = 0
    from_s: float | None = None
    to_s: float = 0.0

    def look(self, pids: list[int], now_s: float) -> None:
        """`pids`: the trainer, then its loaders. Who has gone keeps what was last seen of it."""
        self.from_s = now_s if self.from_s is None else self.from_s
        self.to_s = now_s
        self.loaders = max(self.loaders, len(pids) - 1)
        for pid in pids:
            with suppress(OSError, ValueError):
                wanted_s = parse_wanted_s(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text())
                counts = replace(parse_io(Path(f"/proc/{pid}/io").read_text()), wanted_s=wanted_s)
                self.trainer = pids[0]
                self.first.setdefault(pid, counts)
                self.last[pid] = counts
                self._files(pid)

    def _files(self, pid: int) -> None:
        # A small file is open for a moment: several glances see more of them.
        seen = {path for _ in range(_GLANCES) for path in _open_files(pid)}
        paths = sorted(seen - self.names)
        if not paths:
            return
        mounts = parse_mounts(Path(f"/proc/{pid}/mountinfo").read_text())
        for path in paths[: _MOST_NAMES - len(self.names)]:
            self.names.add(path)
            kind = file_system(path, mounts)
            self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def document(self) -> dict[str, JsonValue]:
        def grown(name: str) -> int:
            return sum(
                getattr(self.last[pid], name) - getattr(self.first[pid], name) for pid in self.last
            )

        wanted_s = {pid: self.last[pid].wanted_s - self.first[pid].wanted_s for pid in self.last}
        trainer_s = wanted_s.pop(self.trainer, 0.0)
        span_s = 0.0 if self.from_s is None else self.to_s - self.from_s
        return {
            "span_s": round(span_s, 3),
            "loaders": self.loaders,
            "asked_bytes": grown("asked_bytes"),
            "calls": grown("calls"),
            "fetched_bytes": grown("fetched_bytes"),
            "main_cpu_s": round(trainer_s, 2),
            "loader_cpu_s": round(sum(wanted_s.values()), 2),
            "files": len(self.names),
            "kinds": {**self.kinds},
        }


def _open_files(pid: int) -> list[str]:
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            path = str(link.readlink())
            if path.startswith("/") and not path.startswith(_NOT_DATA) and not path.endswith(_CODE):
                found.append(path)
    return found
