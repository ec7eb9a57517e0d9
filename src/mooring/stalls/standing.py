"""What one process is doing at one moment: state, Python stack, or what the kernel tells."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mooring.record.journal import JsonValue
from mooring.stacks.classify import Frame, Stack

_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in uninterruptible wait",
    "T": "stopped",
    "t": "stopped",
    "Z": "ended",
    "X": "ended",
}
STOPPED = "stopped"
ENDED = "ended"
#: Below this part of a CPU a process waits.
_IDLE_CPUS = 0.05


@dataclass(frozen=True)
class StandingProcess:
    """A process of a member. `threads`: name and stack of each thread, its main thread first.

    `cpus` is what it used while it was looked at. Without stacks `note` says why, and `kernel` is
    where in the kernel its main thread waits. `serves`: it only answers others.
    """

    member: str
    pid: int = 0
    state: str = ""
    cpus: float | None = None
    threads: tuple[tuple[str, Stack], ...] = ()
    kernel: str = ""
    note: str = ""
    serves: bool = False
    exit_code: int | None = None
    alone: bool = True
    """Its member has no other process that is looked at."""

    @property
    def who(self) -> str:
        """`worker-1`, or `worker-1 (process 4711)` of a member with several ranks."""
        return self.member if self.alone else f"{self.member} (process {self.pid})"

    @property
    def stack(self) -> Stack:
        """Of the main thread, from the outermost call inwards."""
        return self.threads[0][1] if self.threads else ()

    @property
    def idle(self) -> bool:
        if self.state in (STOPPED, ENDED):
            return True
        return self.cpus < _IDLE_CPUS if self.cpus is not None else self.state != "running"

    def text(self) -> str:
        """As it is kept: all threads, innermost call first, like a debugger prints them."""
        if self.state == ENDED:
            code = "" if self.exit_code is None else f" with exit code {self.exit_code}"
            return f"{self.member}: ended{code}\n"
        used = "" if self.cpus is None else f", {100 * self.cpus:.0f} % of a CPU"
        kernel = f", in the kernel: {self.kernel}" if self.kernel else ""
        lines = [f"{self.member} (process {self.pid}): {self.state}{used}{kernel}"]
        for name, stack in self.threads:
            lines.append(f'  thread "{name}"')
            lines += [f"    {frame.name} ({frame.file}:{frame.line})" for frame in reversed(stack)]
        if self.note:
            lines.append(f"  {self.note}")
        return "\n".join(lines) + "\n"

    def short(self, most: int = 6) -> list[str]:
        """The innermost calls of the main thread, without folders."""
        return [
            f"{frame.name} ({frame.file.rsplit('/', 1)[-1]}:{frame.line})"
            for frame in reversed(self.stack[-most:])
        ]


def parse_dump(text: str, pid: int) -> tuple[tuple[str, Stack], ...]:
    """Threads of `py-spy dump --json`; the main thread first. Raises ValueError."""
    found: list[tuple[bool, str, Stack]] = []
    try:
        told = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    for thread in told if isinstance(told, list) else []:
        if not isinstance(thread, dict):
            continue
        frames = thread.get("frames")
        known = (
            [frame for frame in frames if isinstance(frame, dict)]
            if isinstance(frames, list)
            else []
        )
        stack = tuple(_frame(one) for one in reversed(known))
        name = str(thread.get("thread_name") or thread.get("os_thread_id") or "?")
        main = thread.get("os_thread_id") == pid or name == "MainThread"
        found.append((not main, name, stack))
    found.sort(key=lambda one: one[0])
    return tuple((name, stack) for _, name, stack in found if stack)


def _frame(told: dict[str, JsonValue]) -> Frame:
    line = told.get("line")
    file = str(told.get("filename") or "")
    return Frame(str(told.get("name")), file, line if isinstance(line, int) else 0)


@dataclass(frozen=True)
class Moment:
    """What /proc says of a process: its state, CPU time and place in the kernel."""

    state: str
    cpu_s: float = 0.0
    kernel: str = ""


def read_moment(pid: int) -> Moment:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return Moment(ENDED)
    # The name in brackets may hold anything.
    fields = text.rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    kernel = ""
    with suppress(OSError):
        told = Path(f"/proc/{pid}/wchan").read_text().strip()
        kernel = "" if told == "0" else told
    return Moment(_STATES.get(fields[0], fields[0]), cpu_s, kernel)
