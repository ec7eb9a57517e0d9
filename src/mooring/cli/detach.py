"""`moor run --detach`: the run goes on in a process and session of its own.

The process that the user started divides in two once the job file has been read. The child carries
the run out as in the foreground; until the run has a folder it prints where the user looks, so that
no error is lost, afterwards into that folder. The parent waits until the job has started.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from mooring.cli.ending import EXIT_INTERRUPTED, tell_end
from mooring.cli.say import say
from mooring.interrupts import StopSignals
from mooring.model.status import Phase
from mooring.record import RunRecord
from mooring.record.runs import open_run
from mooring.report.finish import read_report
from mooring.report.view import RunView

_POLL_S = 0.05
_MOST_FDS = 4096


class Child:
    """The process that carries the run out. Call `started` with each run that it starts."""

    def __init__(self, announce_fd: int) -> None:
        self._announce_fd = announce_fd

    def started(self, run: RunRecord) -> None:
        """Print into the run's folder from here on, and tell the parent where that is."""
        sys.stdout.flush()
        sys.stderr.flush()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        output = os.open(run.output_file, flags, 0o600)
        for fd in (1, 2):
            os.dup2(output, fd)
        os.close(output)
        if self._announce_fd >= 0:
            # A parent that was killed meanwhile does not matter: the run is on its own.
            with suppress(OSError):
                os.write(self._announce_fd, os.fsencode(run.root))
            os.close(self._announce_fd)
            self._announce_fd = -1


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
            root = self._announced(signals)
            run = open_run(root) if root is not None else None
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

    def _announced(self, signals: StopSignals) -> Path | None:
        """The run's folder; None if the child ended without one."""
        os.set_blocking(self._announced_fd, False)
        try:
            while True:
                self._pass_on(signals)
                with suppress(BlockingIOError):
                    root = os.read(self._announced_fd, 1 << 16)
                    return Path(os.fsdecode(root)) if root else None
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
