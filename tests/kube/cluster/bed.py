"""The ground that a cluster stands on: folders, marked processes, and the guard that clears up."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kube.cluster import guard

MEMORY = Path("/dev/shm")
#: Below the kernel's ephemeral range, so that no outgoing connection takes one between its choice
#: and its use, and below those that local runs reserve.
PORTS = range(12000, 20900)


class BedError(Exception):
    """Something of the cluster did not come up; with the end of its log."""


class Bed:
    """Starts processes and guarantees their end; see guard.py."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(4)
        # Not under pytest's folder: unix sockets in here must stay below 108 characters.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{guard.name_of(self.token)}-"))
        folders = [self.folder]
        self.memory = self.folder
        if os.access(MEMORY, os.W_OK):
            self.memory = MEMORY / guard.name_of(self.token)
            self.memory.mkdir()
            folders.append(self.memory)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = subprocess.Popen(
            [sys.executable, guard.__file__, self.token, *map(str, folders)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> None:
        """Starts it under this name, its output added to `logs/NAME.log`."""
        if self.is_running(name):
            raise BedError(f"{name} runs already")
        self.log(name).parent.mkdir(exist_ok=True)
        with self.log(name).open("ab") as output:
            self._processes[name] = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**(os.environ if env is None else env), guard.MARK: self.token},
                start_new_session=True,
            )

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends it and waits; SIGKILL after ten seconds."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def signal(self, name: str, which: signal.Signals) -> None:
        self._processes[name].send_signal(which)

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def is_running(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def check(self, name: str) -> None:
        """Raises, with the end of its log, when it has ended by itself."""
        if not self.is_running(name):
            raise BedError(f"{name} has ended. The end of its log:\n{self.log_end(name)}")

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def log_end(self, name: str, lines: int = 30) -> str:
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        _, said = self._guard.communicate(timeout=2 * guard.DEADLINE_S)
        if self._guard.returncode != 0:
            raise BedError(f"left behind: {said}")

    def leftovers(self) -> list[str]:
        """What is on this machine of this bed: nothing, after `close`."""
        return guard.leftovers(self.token, [self.folder, self.memory])


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            # A server's own connections of before do not keep it from listening again.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise BedError(f"there are no {count} free ports in {PORTS}")


def need(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise BedError(f"please install: {', '.join(missing)}")
