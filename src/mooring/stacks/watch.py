"""Looks at the trainers of a run for as long as it lives, from the process that carries the run.

Nothing here waits: `poll` is called in the loop's turns, starts py-spy for some seconds a trainer
and collects what ended ones wrote. py-spy ends by itself after these seconds or with the trainer.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mooring.record import Journal, RunRecord, Tail
from mooring.record.journal import JsonValue
from mooring.record.private import make_folder, open_file
from mooring.stacks.categories import LETTERS, Category
from mooring.stacks.reading import Reading
from mooring.stacks.sources import Sources
from mooring.stacks.tool import command, complaint, hopeless, looks
from mooring.stacks.trace import Summary, read_spans, summarise

#: Trainers that are watched; more would be looked at for nothing but their number.
_MOST_TRAINERS = 8
#: (seconds, looks a second). Quick at first, so that a probe of ten seconds tells; then rare, at a
#: quarter of the cost (benchmarks/stacks.py).
QUICK = (10, 10)
_QUICK_TURNS = 2
SLOW = (20, 2)
_LOOK_EVERY_S = 1.0
_SEARCH_EVERY_S = 3.0
#: A program that reports no steps is looked at this long after it started.
_WITHOUT_STEPS_S = 8.0
#: A Python that is just starting cannot be read.
_MOST_FAILURES = 5
_LAST_WORDS_S = 1.0
#: Who only serves is asked now and then whether that is still so.
_SERVING_S = 60.0


@dataclass
class _Trainer:
    """One process that is watched, and the look that is under way."""

    member: str
    pid: int
    turns: int = 0
    failures: int = 0
    due_s: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    began_s: float = 0.0
    hz: int = 0
    output: Path = Path()
    reading: Reading = field(default_factory=Reading)
    sources: Sources = field(default_factory=lambda: Sources(""))


@dataclass
class _Member:
    """What a member's samples have told so far."""

    tail: Tail
    launcher_pid: int | None = None
    running_s: float | None = None
    stepped: bool = False
    asked_s: float = 0.0


class Watch:
    """Call `poll` often and `close` at the end. Errors of any kind end the looks, not the run."""

    def __init__(
        self, run: RunRecord, members: Iterable[str], tool: str, speakers: Iterable[str] = ()
    ) -> None:
        """`speakers` report the steps of all members and are not looked at themselves."""
        self._run, self._tool = run, tool
        self._speakers = [Tail(run.sample_file(name)) for name in speakers]
        self._spoken = False
        self._members = {name: _Member(Tail(run.sample_file(name))) for name in members}
        self._trainers: dict[int, _Trainer] = {}
        self._given_up: set[int] = set()
        self._due_s = 0.0
        self._folder = run.stack_file("").parent

    def poll(self, now_s: float) -> None:
        if now_s < self._due_s:
            return
        self._due_s = now_s + _LOOK_EVERY_S
        try:
            self._find(now_s)
            for trainer in list(self._trainers.values()):
                self._turn(trainer, now_s)
        except OSError:
            # A full disk, or no more processes: the run matters more than what is known of it.
            self._due_s = now_s + 10 * _LOOK_EVERY_S

    def close(self) -> None:
        """The trainers have ended, or are given up: so have those who look at them."""
        give_up_s = time.monotonic() + _LAST_WORDS_S
        for trainer in list(self._trainers.values()):
            process = trainer.process
            if process is None:
                continue
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, give_up_s - time.monotonic()))
            if process.poll() is None:
                process.kill()
                process.wait()
            with suppress(OSError):
                self._collect(trainer)
        self._trainers.clear()

    def _find(self, now_s: float) -> None:
        """New trainers of members that train: those that report steps, or have run for a while."""
        from mooring.stacks.trainers import trainers_of

        for speaker in self._speakers:
            self._spoken |= any(line.get("kind") == "step" for line in speaker.read())
        for member in self._members.values():
            for line in member.tail.read():
                pid, at_s = line.get("pid"), line.get("t")
                if line.get("kind") == "ready" and isinstance(pid, int):
                    member.launcher_pid, member.stepped, member.running_s = pid, False, None
                elif line.get("kind") == "running" and isinstance(at_s, int | float):
                    member.running_s = at_s
                elif line.get("kind") == "step":
                    member.stepped = True
        for name, member in self._members.items():
            ran_s = time.time() - member.running_s if member.running_s is not None else 0.0
            trains = member.stepped or self._spoken or ran_s >= _WITHOUT_STEPS_S
            if member.launcher_pid is None or not trains or now_s < member.asked_s:
                continue
            member.asked_s = now_s + _SEARCH_EVERY_S
            for pid in trainers_of(member.launcher_pid):
                new = pid not in self._trainers and pid not in self._given_up
                if new and len(self._trainers) < _MOST_TRAINERS:
                    with suppress(OSError):  # it may have just ended
                        sources = Sources(str(Path(f"/proc/{pid}/cwd").readlink()))
                        self._trainers[pid] = _Trainer(name, pid, sources=sources)

    def _turn(self, trainer: _Trainer, now_s: float) -> None:
        from mooring.stacks.trainers import loaders_of

        if trainer.process is not None:
            if trainer.process.poll() is None:
                trainer.reading.look([trainer.pid, *loaders_of(trainer.pid)], now_s)
                return
            self._collect(trainer)
        if trainer.pid in self._given_up:
            return
        if not Path(f"/proc/{trainer.pid}").exists():
            del self._trainers[trainer.pid]
        elif now_s >= trainer.due_s:
            self._start(trainer)

    def _start(self, trainer: _Trainer) -> None:
        seconds, trainer.hz = QUICK if trainer.turns < _QUICK_TURNS else SLOW
        make_folder(self._folder)
        trainer.output = self._folder / f".{trainer.pid}.json"
        trainer.reading = Reading()
        trainer.began_s = time.time()
        with open_file(trainer.output.with_suffix(".err")) as errors:
            trainer.process = subprocess.Popen(
                command(self._tool, trainer.pid, seconds, trainer.hz, trainer.output),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                # Ctrl-C at the terminal is for the run.
                process_group=0,
            )

    def _collect(self, trainer: _Trainer) -> None:
        trainer.process = None
        errors = trainer.output.with_suffix(".err")
        line: dict[str, JsonValue]
        said = errors.read_text(encoding="utf-8", errors="replace") if errors.exists() else ""
        try:
            spans = read_spans(trainer.output.read_text(encoding="utf-8"), trainer.pid)
            summary = summarise(spans, trainer.hz, trainer.sources.line, looks(said))
        except (OSError, ValueError):
            summary = None
        finally:
            trainer.output.unlink(missing_ok=True)
            errors.unlink(missing_ok=True)
        if summary is not None and summary.seen:
            trainer.turns += 1
            trainer.failures = 0
            if set(summary.seen) == {LETTERS[Category.SERVING]}:
                trainer.due_s = time.monotonic() + _SERVING_S
            from_s = trainer.began_s + spans[0].from_s
            line = {"t": round(from_s, 3), **_document(summary), "io": trainer.reading.document()}
        else:
            trainer.failures += 1
            trainer.due_s = time.monotonic() + trainer.failures
            if trainer.failures < _MOST_FAILURES and not hopeless(said):
                return
            self._given_up.add(trainer.pid)
            self._trainers.pop(trainer.pid, None)
            line = {"t": time.time(), "error": complaint(said)}
        journal = Journal(self._run.stack_file(trainer.member))
        try:
            journal.append({"kind": "stacks", "pid": trainer.pid, **line})
        finally:
            journal.close()


def _document(summary: Summary) -> dict[str, JsonValue]:
    return {
        "hz": round(summary.hz, 3),
        "seen": summary.seen,
        "places": {name.value: {**counts} for name, counts in summary.places.items()},
    }
