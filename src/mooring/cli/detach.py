"""`moor run --detach`: the run goes on in a process and session of its own.

The process that the user started divides in two once the job file has been read. The child carries
the run out as in the foreground; until the run has a folder it prints where the user looks, so that
no error is lost, afterwards into that folder. The parent waits until the job has started.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from mooring.backends.local.queue.folders import queue_home
from mooring.backends.local.queue.turn import WaitingPlace
from mooring.cli.ending import EXIT_INTERRUPTED, tell_end
from mooring.cli.queue_wait import standing
from mooring.cli.say import say
from mooring.interrupts import StopSignals
from mooring.model.status import Phase
from mooring.record import RunRecord
from mooring.record.runs import open_run
from mooring.report.finish import read_report
from mooring.report.view import RunView

_POLL_S = 0.05
_MOST_FDS = 4096
#: What the child announces begins so, unless it is the path of a run.
_QUEUED = b"queued "


class Child:
    """The process that carries the run out. Call `started` with each run that it starts."""

    def __init__(self, announce_fd: int) -> None:
        self._announce_fd = announce_fd

    def started(self, run: RunRecord) -> None:
        """Print into the run's folder from here on, and tell the parent where that is."""
        _print_into(run.output_file)
        self._announce(os.fsencode(run.root))

    def waits(self, place: WaitingPlace) -> None:
        """Wait for the job's turn in the machine's queue alone; the parent tells its place."""
        if self._announce_fd >= 0:
            _print_into(queue_home().job(place.job_id).log_file)
            self._announce(_QUEUED + json.dumps(asdict(place)).encode())

    def _announce(self, what: bytes) -> None:
        if self._announce_fd >= 0:
            # A parent that was killed meanwhile does not matter: the run is on its own.
            with suppress(OSError):
                os.write(self._announce_fd, what)
            os.close(self._announce_fd)
            self._announce_fd = -1


def _print_into(path: Path) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    output = os.open(path, flags, 0o600)
    for fd in (1, 2):
        os.dup2(output, fd)
    os.close(output)


class Parent:
    """The process that the user waits for."""

    def __init__(self, child_pid: int, announced_fd: int) -> None:
        self._pid = child_pid
        self._announced_fd = announced_fd
        self._exit_code: int | None = None

    def wait(self, console: Console, *, quiet: bool, probe: bool) -> int:
        """Until the job runs, or has ended or failed before; returns the command's exit code.
        `probe`: the first run is a probe, which another one follows.

        An interruption meanwhile stops the run: nobody knows its name yet.
        """
        with StopSignals() as signals:
            announced = self._announced(signals)
            if announced.startswith(_QUEUED):
                place = WaitingPlace(**json.loads(announced.removeprefix(_QUEUED)))
                _tell_queued(place, quiet=quiet)
                return 0
            run = open_run(Path(os.fsdecode(announced))) if announced else None
            if run is None:
                # It was refused, or failed before it had a folder, and has said why.
                return self._wait_for_child(signals)
            view = RunView(run)
            view.update()
            while view.phase not in (Phase.RUNNING, Phase.RESTARTING) and not view.phase.final:
                self._pass_on(signals)
                if not self._child_lives():
                    break
                time.sleep(_POLL_S)
                view.update()
            if not view.phase.final and self._child_lives():
                _tell(run, quiet=quiet, probe=probe)
                return 0
            self._wait_for_child(signals)
        return tell_end(console, run, read_report(run), quiet=quiet)

    def _announced(self, signals: StopSignals) -> bytes:
        """The run's folder, or where it waits in the queue; nothing if the child ended without."""
        os.set_blocking(self._announced_fd, False)
        try:
            while True:
                self._pass_on(signals)
                with suppress(BlockingIOError):
                    return os.read(self._announced_fd, 1 << 16)
                time.sleep(_POLL_S)
        finally:
            os.close(self._announced_fd)

    def _pass_on(self, signals: StopSignals) -> None:
        for _ in signals.take():
            if self._child_lives():
                os.kill(self._pid, signal.SIGTERM)

    def _child_lives(self) -> bool:
        if self._exit_code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._exit_code = os.waitstatus_to_exitcode(status)
        return self._exit_code is None

    def _wait_for_child(self, signals: StopSignals) -> int:
        while self._child_lives():
            self._pass_on(signals)
            time.sleep(_POLL_S)
        code = self._exit_code or 0
        if code < 0:
            say(f"failed: the run's process was killed by signal {-code}", err=True)
            return EXIT_INTERRUPTED if -code == signal.SIGINT else 1
        return code


def divide() -> Child | Parent:
    """Returns twice: in the child, which has left the terminal, and in the parent."""
    sys.stdout.flush()
    sys.stderr.flush()
    announced_fd, announce_fd = os.pipe()
    pid = os.fork()
    if pid:
        os.close(announce_fd)
        return Parent(pid, announced_fd)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    # Whoever started us may wait for the end of a pipe or hold a lock by what we inherited.
    os.closerange(3, announce_fd)
    os.closerange(announce_fd + 1, _MOST_FDS)
    return Child(announce_fd)


def _tell_queued(place: WaitingPlace, *, quiet: bool) -> None:
    if quiet:
        say(place.job_id)
        return
    say(f"{standing(place)}: {place.reason}" if place.reason else standing(place))
    say(f"  follow it   moor attach {place.job_id}")
    say(f"  see why     moor ps, moor explain {place.job_id}")
    say(f"  stop it     moor stop {place.job_id}")


def _tell(run: RunRecord, *, quiet: bool, probe: bool) -> None:
    name = run.info.id
    if quiet:
        say(name)
        return
    say(f"{name} runs on by itself (process {run.info.pid})")
    say(f"  follow it   moor attach {name}")
    say(f"  see it      moor ps, moor report {name}, moor logs {name}")
    say(f"  stop it     moor stop {name}")
    if probe:
        say("  This is the probe. The run after it has a name of its own: moor ps tells it.")
