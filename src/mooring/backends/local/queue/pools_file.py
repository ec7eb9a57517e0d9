"""The pools file, read again whenever it changes. One that is not valid is refused, and the last
that was valid stays, also when the service is started anew.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mooring.backends.local.holders import THIS_MACHINE
from mooring.backends.local.queue.admission import Sharing
from mooring.brain.queue import check_pools
from mooring.brain.queue.order import CLASSES
from mooring.model.errors import BadInput
from mooring.model.resources import Resources
from mooring.record.private import write_whole
from mooring.spec.load import parse_pools
from mooring.spec.source import read_text

_Stamp = tuple[int, int, int]


class PoolsWatch:
    """`sharing` is what holds now; `refused` says why the file as it is does not.

    `required`: the user named the file, so that it must be there. `capacity` is the machine's.
    """

    def __init__(self, path: Path, kept: Path, capacity: Resources, *, required: bool) -> None:
        """Raises BadInput if the file is not valid and none before it was."""
        self._path, self._kept, self._required = path, kept, required
        self._capacity = capacity
        self._stamp: _Stamp | None = None
        self.sharing = Sharing()
        self.refused = ""
        try:
            self._read()
        except BadInput as error:
            if not kept.exists():
                raise
            self.refused = self._refusal(error)
            self.sharing = self._parsed(kept)
        self._stamp = self._look()

    def look(self) -> bool:
        """Whether the file has changed since the last look, for better or worse."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self._read()
            self.refused = ""
        except BadInput as error:
            self.refused = self._refusal(error)
        return True

    def _read(self) -> None:
        if self._look() is None and not self._required:
            self.sharing = Sharing()
            self._kept.unlink(missing_ok=True)
            return
        self.sharing = self._parsed(self._path)
        with suppress(OSError):
            write_whole(self._kept, self._path.read_text(encoding="utf-8"))

    def _parsed(self, path: Path) -> Sharing:
        """Raises BadInput, also for promises that the machine cannot keep."""
        file = parse_pools(read_text(path), str(self._path))
        sharing = Sharing(file.pools, {**CLASSES, **file.priority_classes})
        problems = check_pools(sharing.specs(self._capacity), self._capacity, THIS_MACHINE)
        if problems:
            raise BadInput(str(self._path), problems)
        return sharing

    def _look(self) -> _Stamp | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _refusal(self, error: BadInput) -> str:
        more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
        return f"{error.source} is refused, what was valid before stays: {error.problems[0]}{more}"
