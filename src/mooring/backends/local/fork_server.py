"""The runtime's side of the launcher's fork server: one process that has its imports done.

`src/mooring/launcher/fork_server.py` says what they send each other. The server is started as early
as can be, so that it imports while this process does. Without one (another system than Linux, a
server that was killed) launchers are started one by one: slower, and nothing else changes.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from mooring.backends.local.pack import kept_launcher
from mooring.record.state_home import cache_dir

#: In the server's environment, last: room for the marks of the launchers that it forks.
_ROOM_VARIABLE = "MOORING_ROOM"
_ROOM = 1024
_LENGTH = struct.Struct(">I")
#: A server that has not answered after so long is given up, and launchers are started directly.
_ANSWER_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 2.0
#: The exit code of a launcher whose server died before it: nobody knows it.
UNKNOWN_CODE = -9


class ForkServer:
    """Makes launchers by forking. `close` ends the server, not the launchers."""

    def __init__(self, archive: Path) -> None:
        ours, theirs = socket.socketpair()
        self._control = ours
        self._control.settimeout(_ANSWER_TIMEOUT_S)
        self._codes: dict[int, int] = {}
        self.gone = False
        environment = dict(os.environ)
        environment.pop(_ROOM_VARIABLE, None)
        environment[_ROOM_VARIABLE] = "-" * _ROOM
        number = theirs.fileno()
        command = [sys.executable, "-I", "-S", str(archive), "fork-server", str(number)]
        with theirs:
            self._process = subprocess.Popen(
                [*command, "-" * _ROOM],  # room for the command line that a launcher shows
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                pass_fds=[number],
                start_new_session=True,
            )

    @staticmethod
    def start() -> ForkServer | None:
        """A server, where there can be one."""
        if not sys.platform.startswith("linux"):
            return None
        with suppress(OSError):
            return ForkServer(kept_launcher(cache_dir()))
        return None

    def fileno(self) -> int:
        """Readable once a launcher has ended."""
        return self._control.fileno()

    def launch(
        self,
        launcher: Path,
        contract: Path,
        env: Mapping[str, str],
        marks: Sequence[str],
        stdout: int,
        stderr: int,
    ) -> ForkedLauncher:
        """A launcher for `contract`, as if the archive `launcher` had been started.

        `marks` are the names of those variables that others find the process by. Raises OSError if
        the server is gone or cannot.
        """
        if self.gone:
            raise BrokenPipeError("the fork server is gone")
        reading, writing = os.pipe()
        try:
            request = {
                "launcher": str(launcher),
                "contract": str(contract),
                "env": dict(env),
                "marks": {name: env[name] for name in marks if name in env},
            }
            self._send(request, [reading, stdout, stderr])
            answer = self._receive()
            while "ended" in answer:
                self._note(answer)
                answer = self._receive()
            if "pid" not in answer:
                raise OSError(str(answer.get("trouble", "the fork server cannot")))
        except OSError:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        return ForkedLauncher(self, int(str(answer["pid"])), os.fdopen(writing, "wb"))

    def code_of(self, pid: int) -> int | None:
        """The exit code of a launcher that has ended, as Popen gives it."""
        while pid not in self._codes and not self.gone and self._readable():
            with suppress(OSError):
                self._note(self._receive())
        if pid not in self._codes and self.gone and not _exists(pid):
            return UNKNOWN_CODE
        return self._codes.get(pid)

    def forget(self, pid: int) -> None:
        """The number of a launcher that has ended may be used again."""
        with suppress(OSError):
            self._send({"reap": pid}, [])

    def close(self) -> None:
        self.gone = True
        self._control.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # stopped by a signal, say
            self._process.kill()
            self._process.wait()

    def _note(self, message: Mapping[str, object]) -> None:
        if "ended" in message:
            self._codes[int(str(message["ended"]))] = int(str(message["code"]))

    def _readable(self) -> bool:
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        return bool(poller.poll(0))

    def _send(self, document: Mapping[str, object], fds: Sequence[int]) -> None:
        data = json.dumps(document).encode("ascii")
        rights = array.array("i", fds)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if fds else []
        try:
            self._control.sendmsg([_LENGTH.pack(len(data))], ancillary)
            self._control.sendall(data)
        except OSError:
            self.gone = True
            raise

    def _receive(self) -> dict[str, object]:
        try:
            (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            document: dict[str, object] = json.loads(self._exactly(length))
        except (OSError, ValueError) as error:
            self.gone = True
            raise OSError(f"the fork server does not answer: {error}") from error
        return document

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._control.recv(count - len(data))
            if not more:
                raise BrokenPipeError("the fork server is gone")
            data += more
        return data


class ForkedLauncher:
    """A launcher that the server has forked; see `launchers.LauncherProcess`."""

    def __init__(self, server: ForkServer, pid: int, stdin: IO[bytes]) -> None:
        self._server = server
        self._code: int | None = None
        self.pid = pid
        self.stdin: IO[bytes] | None = stdin

    @property
    def ends_at(self) -> int | None:
        """A descriptor that can be read from once it has ended; None if nobody tells any more."""
        return None if self._server.gone else self._server.fileno()

    def poll(self) -> int | None:
        if self._code is None:
            self._code = self._server.code_of(self.pid)
            if self._code is not None:
                self._server.forget(self.pid)
        return self._code

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(0.002)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
