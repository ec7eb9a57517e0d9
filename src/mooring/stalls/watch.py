"""Watches a run for a standstill, from the process that carries it.

Nothing here waits: `poll` is called in the loop's turns. A look takes some turns: CPU times, some
seconds later the stacks, by one py-spy a process, and then the verdict. Errors end the look.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from mooring.model.member import Duty
from mooring.record import RunRecord
from mooring.stacks.classify import Stack
from mooring.stacks.sources import ProgramSources, with_text
from mooring.stacks.tool import complaint, dump_command
from mooring.stalls.progress import ProgressTracker
from mooring.stalls.standing import ENDED, Moment, StandingProcess, parse_dump, read_moment
from mooring.stalls.verdict import StallVerdict, judge
from mooring.wire import JournalTail, Record
from mooring.wire.events import StalledProcess, StallNoted
from mooring.wire.members import Exit, Ready

_READ_EVERY_S = 1.0
#: Between the two readings of CPU time.
_SPAN_S = 2.0
#: For all of py-spy's dumps; one takes some hundredths of a second.
_DUMPS_S = 10.0
#: Processes whose stacks are looked at; of the others what /proc says.
_MOST_DUMPS = 64
#: A standstill that lasts is looked at again each time it has grown so much.
_AGAIN = 2.0


@dataclass(frozen=True)
class Stall:
    """What a look at a standstill found. `due`: it has lasted for the job's own time limit."""

    lasts_s: float
    usual_s: float | None
    stepped: bool
    verdict: StallVerdict
    standings: tuple[StandingProcess, ...]
    due: bool

    @property
    def says(self) -> str:
        """One sentence: since when, and who has not arrived."""
        return stall_sentence(self.lasts_s, self.usual_s, self.stepped, self.verdict)

    def record(self, now_s: float, file: str) -> StallNoted:
        """As the run's events keep it; `file`: where everybody's stacks are."""
        return StallNoted(
            now_s,
            lasts_s=round(self.lasts_s, 1),
            usual_s=None if self.usual_s is None else round(self.usual_s, 3),
            hang=self.verdict.hang,
            says=self.says,
            missing=tuple(self.verdict.missing),
            file=file,
            processes=tuple(
                StalledProcess(
                    standing.who,
                    standing.pid,
                    standing.state,
                    standing.kernel,
                    tuple(standing.short()),
                    standing.note,
                )
                for standing in self.standings
            ),
        )

    def text(self) -> str:
        """As the run's folder keeps it: everybody's stacks in full."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return (
            "\n".join([f"{at} {self.says}", "", *(standing.text() for standing in self.standings)])
            + "\n"
        )


def stall_sentence(
    lasts_s: float, usual_s: float | None, stepped: bool, verdict: StallVerdict | None
) -> str:
    head = "hang: " if verdict is not None and verdict.hang else ""
    what = "no step" if stepped else "neither steps, output, CPU use nor traffic"
    usual = f" (one took {usual_s:.2g} s)" if usual_s else ""
    said = f"{head}{what} for {lasts_s:.0f} s{usual}"
    return f"{said}: {verdict.says}" if verdict is not None else said


@dataclass
class _Process:
    """A process that is being looked at."""

    member: str
    pid: int
    serves: bool
    alone: bool
    before: Moment
    dump: subprocess.Popen[bytes] | None = None
    output: IO[bytes] | None = None
    note: str = ""


@dataclass
class _Look:
    began_s: float
    processes: list[_Process]
    dumping: bool = False
    ended: tuple[StandingProcess, ...] = ()


@dataclass
class _Member:
    tail: JournalTail
    log: Path
    serves: bool
    starts: bool
    """mpirun: it prints its ranks' steps and waits for them; it is not looked at."""
    launcher_pid: int | None = None
    exit_code: int | None = None


@dataclass
class StallWatch:
    """Call `poll` often, `close` at the end. `limit_s`: after so long the job wants to act."""

    run: RunRecord
    duties: Mapping[str, Duty]
    """Member -> what it is there for. Who evaluates may wait for long: it is left out."""
    tool: str | None
    why_no_tool: str
    limit_s: float | None = None
    progress: ProgressTracker = field(default_factory=ProgressTracker)

    def __post_init__(self) -> None:
        self._members = {
            name: _Member(
                JournalTail(self.run.sample_file(name)),
                self.run.log_file(name),
                serves=duty is Duty.SERVES,
                starts=duty is Duty.STARTS,
            )
            for name, duty in self.duties.items()
            if duty is not Duty.EVALUATES
        }
        self._due_s = 0.0
        self._look: _Look | None = None
        self._looked_s: float | None = None
        """How long it had lasted when it was last looked at; None: all is well."""

    @property
    def stalled(self) -> bool:
        return self._looked_s is not None

    def poll(self, now_s: float) -> Stall | None:
        """`now_s` is the loop's clock. What a look found that has just ended, or None."""
        if self._look is not None:
            return self._go_on(now_s)
        if now_s < self._due_s:
            return None
        self._due_s = now_s + _READ_EVERY_S
        with suppress(OSError):
            self._read()
            lasts_s = self.lasts_s()
            if self._looked_s is not None and lasts_s < self._looked_s:
                self._looked_s = None
            if self._wants_look(lasts_s):
                self._begin(now_s)
        return None

    def lasts_s(self) -> float:
        if self.progress.last_s is None or self.progress.complete:
            return 0.0
        return time.time() - self.progress.last_s

    def close(self) -> None:
        if self._look is not None:
            for process in self._look.processes:
                _end(process)
            self._look = None

    def _wants_look(self, lasts_s: float) -> bool:
        own_s = self.progress.limit_s
        if self.limit_s is not None:
            if lasts_s >= self.limit_s and (self._looked_s or 0.0) < self.limit_s:
                return True
            own_s = min(own_s, self.limit_s)
        again_s = 0.0 if self._looked_s is None else _AGAIN * self._looked_s
        return lasts_s >= max(own_s, again_s)

    def _read(self) -> None:
        printed = 0
        for name, member in self._members.items():
            for record in member.tail.read():
                self.progress.add(name, record)
                _hear(member, record)
            with suppress(OSError):
                printed += member.log.stat().st_size
        self.progress.output(printed, time.time())

    def _begin(self, now_s: float) -> None:
        from mooring.stacks.trainers import children, trainers_of

        processes: list[_Process] = []
        ended: list[StandingProcess] = []
        for name, member in self._members.items():
            if member.starts:
                continue
            if member.exit_code is not None:
                ended.append(
                    StandingProcess(
                        name, state=ENDED, exit_code=member.exit_code, serves=member.serves
                    )
                )
            if member.launcher_pid is None:
                continue
            pids = trainers_of(member.launcher_pid)
            pids = pids or [child.pid for child in children(member.launcher_pid)]
            processes += [
                _Process(name, pid, member.serves, len(pids) == 1, read_moment(pid)) for pid in pids
            ]
        self._look = _Look(now_s, processes, ended=tuple(ended))

    def _go_on(self, now_s: float) -> Stall | None:
        look = self._look
        assert look is not None
        if not look.dumping:
            if now_s >= look.began_s + _SPAN_S:
                look.dumping = True
                for place, one in enumerate(look.processes):
                    self._dump(one, wanted=place < _MOST_DUMPS)
            return None
        busy = any(
            process.dump is not None and process.dump.poll() is None for process in look.processes
        )
        if busy and now_s < look.began_s + _SPAN_S + _DUMPS_S:
            return None
        span_s = now_s - look.began_s
        standings = (*(_standing(process, span_s) for process in look.processes), *look.ended)
        self._look = None
        with suppress(OSError):
            self._read()
        lasts_s = self.lasts_s()
        if lasts_s < span_s:
            return None  # it went on while it was looked at
        self._looked_s = lasts_s
        return Stall(
            lasts_s,
            self.progress.usual_s,
            self.progress.stepped,
            judge(standings),
            standings,
            due=self.limit_s is not None and lasts_s >= self.limit_s,
        )

    def _dump(self, process: _Process, *, wanted: bool) -> None:
        if self.tool is None or not wanted:
            process.note = self.why_no_tool or f"more than {_MOST_DUMPS} processes: not looked at"
            return
        try:
            # A file: hundreds of threads do not fit into a pipe that nobody reads.
            process.output = tempfile.TemporaryFile()  # noqa: SIM115 (closed when it is read)
            process.dump = subprocess.Popen(
                dump_command(self.tool, process.pid),
                stdin=subprocess.DEVNULL,
                stdout=process.output,
                stderr=subprocess.STDOUT,
                # Ctrl-C at the terminal is for the run.
                process_group=0,
            )
        except OSError as error:
            process.note = f"py-spy: {error}"


def _hear(member: _Member, record: Record) -> None:
    if isinstance(record, Ready) and record.pid is not None:
        member.launcher_pid, member.exit_code = record.pid, None
    elif isinstance(record, Exit):
        member.launcher_pid, member.exit_code = None, record.code


def _standing(process: _Process, span_s: float) -> StandingProcess:
    now = read_moment(process.pid)
    threads: tuple[tuple[str, Stack], ...] = ()
    note = process.note
    if process.dump is not None:
        said = _end(process)
        try:
            sources = ProgramSources(str(Path(f"/proc/{process.pid}/cwd").readlink()))
            threads = tuple(
                (name, with_text(stack, sources.line))
                for name, stack in parse_dump(said, process.pid)
            )
        except (OSError, ValueError):
            note = complaint(said)
    cpus = None if now.state == ENDED else max(0.0, now.cpu_s - process.before.cpu_s) / span_s
    return StandingProcess(
        process.member,
        process.pid,
        now.state,
        cpus,
        threads,
        now.kernel,
        note,
        process.serves,
        alone=process.alone,
    )


def _end(process: _Process) -> str:
    """What py-spy printed; one that has not ended is ended."""
    said = b""
    if process.dump is not None:
        if process.dump.poll() is None:
            process.dump.kill()
        process.dump.wait()
        process.dump = None
    if process.output is not None:
        process.output.seek(0)
        said = process.output.read()
        process.output.close()
        process.output = None
    return said.decode("utf-8", "replace")
