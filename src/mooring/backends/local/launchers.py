"""Starting the launchers of members: forked where there is a fork server, else one by one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from mooring.backends.local import owners, processes
from mooring.backends.local.fork_server import UNKNOWN_CODE, ForkedLauncher, ForkServer

__all__ = ["UNKNOWN_CODE", "LauncherProcess", "Launchers"]

#: Variables that tell others whose process a launcher is.
_MARKS = (processes.RUN_VARIABLE, processes.MEMBER_VARIABLE, owners.OWNER_VARIABLE)


class LauncherProcess(Protocol):
    """What the runtime needs of a started launcher; `subprocess.Popen` has it, too."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...
    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def send_signal(self, sig: int) -> None: ...


class Launchers:
    """Starts launchers from the run's archive, by `fork_server` as long as it can."""

    def __init__(self, archive: Path, fork_server: ForkServer | None) -> None:
        self._archive = archive
        self._fork_server = fork_server

    def start(
        self, contract: Path, env: Mapping[str, str], stdout: int, stderr: int
    ) -> LauncherProcess:
        """A launcher for `contract`; a line on its standard input opens its gate."""
        if self._fork_server is not None:
            try:
                return self._fork_server.launch(
                    self._archive, contract, env, _MARKS, stdout, stderr
                )
            except OSError:
                self._fork_server = None
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(self._archive), "run", str(contract)],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env=env,
            start_new_session=True,
        )

    def ends(self, started: Sequence[LauncherProcess]) -> tuple[list[int], list[int]]:
        """How to hear that one of them ends: process numbers to watch, descriptors to read from."""
        pids: list[int] = []
        descriptors: set[int] = set()
        for process in started:
            # Of a server that is gone nobody hears when its launchers end.
            told_at = process.ends_at if isinstance(process, ForkedLauncher) else None
            if told_at is None:
                pids.append(process.pid)
            else:
                descriptors.add(told_at)
        return pids, sorted(descriptors)
