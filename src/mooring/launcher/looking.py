"""One look at one process that trains: its main thread, and whom that waits for in its own process.

The result is a place: what the main thread does (state, system call, what it waits at, Python
frames) and, if it waits, the thread or child process that works meanwhile. Equal places are equal
values, so that looks can be counted. No values of variables are read, only names of code.
"""

from __future__ import annotations

import os
import re

from . import frames, procfs, thread_states, waited_files
from .sources import SourceLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    #: (file, function, line, names that the line calls)
    Call = Tuple[str, str, int, Tuple[str, ...]]
    #: (state, system call, what it waits at, frames from the innermost)
    Spot = Tuple[str, str, Tuple[str, ...], Tuple[Call, ...]]
    #: (main thread, kind of helper, helper, helpers that run (at most 2), members that other
    #: threads wait at)
    Place = Tuple[Spot, str, "Spot | None", int, Tuple[str, ...]]

THREAD, NATIVE, PROCESS = "thread", "native", "process"
_MOST_THREADS = 96
_FEW_THREADS, _WHOLE_SCAN = 8, 4
_MOST_FRAMES = 24
_LIBRARIES = ("/site-packages/", "/dist-packages/")
#: Programs that have no file: `python -c`, standard input.
_TYPED = ("<string>", "<stdin>")
_OF_MOORING = re.compile(r"/mooring/(sdk\.py$|sharding\.py$|torch/|tensorflow/|inside/)")
_WORKS = ("R", "D")
#: Where a Python process waits for its children to end, (file, functions), in the innermost frames.
_JOINS = (
    ("/torch/multiprocessing/spawn.py", ("join", "start_processes", "spawn")),
    ("/multiprocessing/process.py", ("join",)),
    (
        "/subprocess.py",
        ("wait", "_wait", "_try_wait", "communicate", "_communicate", "call", "run"),
    ),
)
_INNERMOST = 5
_MPI_LIBRARIES = (b"/libmpi.so", b"/libmpi_", b"/libmpich", b"/libmpi.")
_MOST_ASKED = 6
#: Calls in which a thread may wait for another one of its process.
_FOR_OTHERS = frozenset(
    ["futex", "poll", "select", "epoll", "read", "recv", "wait", "other", "", "pipe", "uring"]
)
_AT_SOCKETS = frozenset(["recv", "send", "poll", "epoll", "select", "read", "write"])


class WatchedProcess:
    """A trainer (or a helper of one) that is looked at again and again."""

    def __init__(self, pid: int, files: waited_files.Files, sources: SourceLines) -> None:
        self.pid = pid
        self._files, self._sources = files, sources
        self._reader = frames.Reader(pid)
        self._shown: dict[tuple[str, str, int], Call] = {}
        self._turn = 0
        self.python_threads = 0
        self._scans = 0
        self._at_members: dict[str, None] = {}
        self._has_mpi = False
        self._asked_mpi = 0
        try:
            self._folder = os.readlink("/proc/%d/cwd" % pid)
        except OSError:
            self._folder = "/"

    @property
    def refused(self) -> bool:
        return self._reader.refused

    @property
    def is_python(self) -> bool:
        return self._reader.runtime is not None

    def close(self) -> None:
        self._reader.close()

    def retry(self) -> None:
        """A program that was just starting may be a Python now."""
        if self._reader.runtime is None:
            self._reader.close()
            self._reader = frames.Reader(self.pid)

    def look(self, helpers: list[WatchedProcess]) -> Place | None:
        """None if it has ended."""
        states = self._reader.threads()
        self.python_threads = max(self.python_threads, len(states))
        main = self._spot(self.pid, states)
        if main is None:
            return None
        if main[0] in _WORKS or main[1] not in _FOR_OTHERS:
            return main, "", None, 0, ()
        if main[2] and main[2][0].startswith(waited_files.PEER) and main[1] not in ("epoll",):
            return main, "", None, 0, ()
        return self._with_helper(main, states, helpers)

    def has_mpi(self) -> bool:
        """Whether an MPI library is loaded; asked some times, as programs load it late."""
        if not self._has_mpi and self._asked_mpi < _MOST_ASKED:
            self._asked_mpi += 1
            maps = procfs.read_long("/proc/%d/maps" % self.pid, 4 << 20)
            self._has_mpi = any(name in maps for name in _MPI_LIBRARIES)
        return self._has_mpi

    def waits_for_children(self) -> bool:
        """Whether its main thread is in a call that ends with a child process."""
        state = self._reader.threads().get(self.pid)
        stack = self._reader.stack(state) if state else []
        return any(
            frame.function.rpartition(".")[2] in names
            for frame in stack[:_INNERMOST]
            for file, names in _JOINS
            if frame.file.endswith(file)
        )

    def _spot(self, tid: int, states: dict[int, int]) -> Spot | None:
        state = thread_states.read_state(self.pid, tid, self._memory)
        if state is None:
            return None
        stack = self._reader.stack(states[tid]) if tid in states else []
        waits_at = tuple(self._files.of(self.pid, state.files)) if state.files else ()
        return state.letter, state.call, waits_at, self._calls(stack)

    def _memory(self, address: int, size: int) -> bytes:
        return self._reader.read(address, size)

    def _with_helper(
        self, main: Spot, states: dict[int, int], helpers: list[WatchedProcess]
    ) -> Place:
        tids = [int(name) for name in procfs.names("/proc/%d/task" % self.pid) if name.isdigit()]
        others = [tid for tid in tids if tid != self.pid]
        if len(others) > _MOST_THREADS:
            self._turn = (self._turn + _MOST_THREADS) % len(others)
            others = (others + others)[self._turn : self._turn + _MOST_THREADS]
        running = 0
        best: tuple[int, str, Spot] | None = None
        # At whose connections native threads wait changes rarely, and costs most to find out.
        self._scans += 1
        whole = self._scans % _WHOLE_SCAN == 1 or len(others) <= _FEW_THREADS
        at_members: dict[str, None] = {} if whole else dict(self._at_members)
        for tid in others:
            in_python = tid in states
            if whole or in_python:
                state = thread_states.read_state(self.pid, tid, self._memory)
            else:
                state = thread_states.read_letter(self.pid, tid)
            if state is None:
                continue
            running += state.letter == "R"
            waits_at: list[str] = []
            if state.files and state.call in _AT_SOCKETS:
                waits_at = self._files.of(self.pid, state.files)
                for name in waits_at:
                    if name.startswith(waited_files.PEER):
                        at_members[name[len(waited_files.PEER) :]] = None
            rank = _rank(state, waits_at, in_python)
            if rank and (best is None or rank > best[0]):
                stack = self._reader.stack(states[tid]) if in_python else []
                spot = state.letter, state.call, tuple(waits_at), self._calls(stack)
                best = rank, THREAD if in_python else NATIVE, spot
        # Who is at work at this moment is not seen waiting, but will wait there again.
        at_members = at_members or self._at_members
        self._at_members = at_members
        if (best is None or best[0] < 4) and helpers:
            running, best = self._processes(helpers, running, best)
        kind, helper = (best[1], best[2]) if best is not None else ("", None)
        return main, kind, helper, min(running, 2), tuple(sorted(at_members)[:4])

    def _processes(
        self, helpers: list[WatchedProcess], running: int, best: tuple[int, str, Spot] | None
    ) -> tuple[int, tuple[int, str, Spot] | None]:
        for process in helpers:
            spot = process._spot(process.pid, process._reader.threads())
            if spot is None:
                continue
            running += spot[0] == "R"
            rank = (
                5 if spot[0] in _WORKS else 3 if spot[1] == "sleep" else 2 if _at_peer(spot) else 0
            )
            if rank and (best is None or rank > best[0]):
                best = rank, PROCESS, spot
        return running, best

    def _calls(self, stack: list[frames.PythonFrame]) -> tuple[Call, ...]:
        shown = [self._call(frame) for frame in stack]
        kept = shown[:_MOST_FRAMES]
        if len(shown) > _MOST_FRAMES:
            kept += [call for call in shown[_MOST_FRAMES:] if not call[0].startswith("~")][-4:]
        return tuple(kept)

    def _call(self, frame: frames.PythonFrame) -> Call:
        key = (frame.file, frame.function, frame.line)
        call = self._shown.get(key)
        if call is None:
            if len(self._shown) > 4096:
                self._shown.clear()
            call = self._shown[key] = self._show(frame)
        return call

    def _show(self, frame: frames.PythonFrame) -> Call:
        file = short_name(frame.file, self._folder)
        function = frame.function[-80:]
        if file.startswith("~"):
            return file, function, 0, ()
        calls = self._sources.calls(self._folder, frame.file, frame.line)
        return file, function, frame.line, tuple(calls)


def _rank(state: thread_states.State, waits_at: list[str], in_python: bool) -> int:
    """Which thread explains best why the main thread waits: those that work, those in Python."""
    if state.letter == "R":
        return 6 if in_python else 5
    if state.letter == "D":
        return 4
    if in_python and state.call == "sleep":
        return 3
    if in_python and state.call in ("recv", "send", "read", "write", "fsync"):
        return 2
    return 0


def _at_peer(spot: Spot) -> bool:
    return any(name.startswith(waited_files.PEER) for name in spot[2])


def short_name(file: str, folder: str) -> str:
    """Of a library `~torch/nn/functional.py`; of the program the path below its folder."""
    for part in _LIBRARIES:
        if part in file:
            return "~" + file.rpartition(part)[2][-120:]
    if file in _TYPED:
        return file
    if file.startswith("<"):
        return "~" + file[:80]
    if "/lib/python3" in file:
        return "~python/" + file.partition("/lib/python3")[2].partition("/")[2][-120:]
    if ".pyz/" in file or _OF_MOORING.search(file):
        return "~mooring/" + file.rpartition("/mooring/")[2].rpartition(".pyz/")[2][-120:]
    if folder != "/" and file.startswith(folder + "/"):
        return file[len(folder) + 1 :][-160:]
    return "/".join(file.split("/")[-3:])[-160:]
