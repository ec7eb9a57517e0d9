"""`launcher fork-server FD PADDING`: has the launcher's imports done, and forks those of members.

Starting Python and importing what a launcher needs takes longer than all else that a launcher does
before its program runs, and it is the same for every member. So one process does it once, while the
runtime still reads the job, and each member's launcher is a fork of it.

Messages on the socket FD are a length (four bytes, big endian) and a JSON document. The runtime
sends `{"launcher", "contract", "env", "marks"}` with three descriptors (standard input, output,
error) and hears `{"pid"}`, or `{"trouble"}`; later `{"ended": pid, "code"}`. What has ended stays
a zombie, so that its number means nobody else, until the runtime says `{"reap": pid}`. When the
socket closes this process ends; the launchers see for themselves that their standard input has
closed.
"""

from __future__ import annotations

import array
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: In the environment of the server, last: room for what marks a launcher as its run's.
ROOM_VARIABLE = "MOORING_ROOM"
_LENGTH = struct.Struct(">I")
_FDS = 3
_MOST_BYTES = 64 << 20
#: Started by themselves, never forked from here.
_NOT_NEEDED = ("pod", "rsh", "look")


def main(fd: int) -> int:
    control = socket.socket(fileno=fd)
    _show(sys.argv[:-1], {})
    _import_all()
    gc.collect()
    gc.freeze()
    return _Server(control).serve()


def _import_all() -> None:
    """Also what a launcher imports later: the archive may be gone by then."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(sys.modules[package].__path__):
        if module.name not in _NOT_NEEDED:
            importlib.import_module("%s.%s" % (package, module.name))


class _Server:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._alive: set[int] = set()
        self._ended: set[int] = set()
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> int:
        """Ends the process once the runtime has closed its end; in a launcher, its exit code."""
        while True:
            ready, _, _ = select.select([self._control.fileno(), self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._tell_ended()
            if self._control.fileno() in ready:
                message = self._receive()
                if message is None:
                    os._exit(0)
                document, fds = message
                if "reap" in document:
                    self._reap(document["reap"])
                elif not self._fork(document, fds):
                    return _become_launcher(document, fds)

    def _fork(self, document: dict[str, Any], fds: list[int]) -> bool:
        """False in the new process."""
        if len(fds) != _FDS:
            self._send({"trouble": "%d descriptors came with a request" % len(fds)})
            return True
        # The runtime may end the launcher's session as soon as it knows its number.
        leads, led = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            pid = -1
            self._send({"trouble": "cannot fork: %s" % error.strerror})
        if pid == 0:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            for fd in (leads, led, self._woken, self._wake):
                os.close(fd)
            return False
        os.close(led)
        if pid > 0:
            os.read(leads, 1)
            self._alive.add(pid)
            self._send({"pid": pid})
        for fd in (leads, *fds):
            os.close(fd)
        return True

    def _tell_ended(self) -> None:
        for pid in sorted(self._alive):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                self._alive.discard(pid)
                self._ended.add(pid)
                exited = ended.si_code == os.CLD_EXITED
                code = ended.si_status if exited else -ended.si_status
                self._send({"ended": pid, "code": code})

    def _reap(self, pid: int) -> None:
        if pid in self._ended:
            self._ended.discard(pid)
            os.waitpid(pid, 0)

    def _send(self, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode("ascii")
        try:
            self._control.sendall(_LENGTH.pack(len(data)) + data)
        except OSError:
            pass  # the runtime is gone: the next read says so

    def _receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """None if the runtime is gone, or what it sends is no request."""
        fds = array.array("i")
        room = socket.CMSG_SPACE(_FDS * fds.itemsize)
        try:
            head, ancillary, _, _ = self._control.recvmsg(_LENGTH.size, room)
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
            head += self._exactly(_LENGTH.size - len(head))
            (length,) = _LENGTH.unpack(head)
            if length > _MOST_BYTES:
                return None
            document = json.loads(self._exactly(length))
        except (OSError, EOFError, ValueError):
            return None
        return (document, list(fds)) if isinstance(document, dict) else None

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            data = self._control.recv(min(count, 1 << 16))
            if not data:
                raise EOFError
            parts.append(data)
            count -= len(data)
        return b"".join(parts)


def _become_launcher(document: dict[str, Any], fds: list[int]) -> int:
    """From here on this process is as if it had been started as `launcher run CONTRACT`."""
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
    for fd in fds:
        if fd > 2:
            os.close(fd)
    sys.argv = [document["launcher"], "run", document["contract"]]
    os.environ.clear()
    os.environ.update(document["env"])
    _show(sys.argv, document["marks"])
    from .main import main

    return main()


def _show(argv: list[str], marks: dict[str, str]) -> None:
    """What other processes see of this one: its command line and, of its environment, the marks.

    Both lie in memory where the kernel put them at exec. As with other servers that fork, a command
    line that does not end with a zero byte is shown up to its first one.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        arg_start, arg_end, env_start, env_end = (int(field) for field in fields[45:49])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            words = [sys.executable, "-I", "-S", *argv]
            line = b" ".join(os.fsencode(word) for word in words)[: arg_end - arg_start - 2]
            memory.seek(arg_start)
            memory.write((line + b"\0").ljust(arg_end - arg_start))
            if marks:
                memory.seek(env_start)
                block = memory.read(env_end - env_start)
                at = block.rindex(os.fsencode(ROOM_VARIABLE) + b"=")
                text = b"".join(os.fsencode("%s=%s" % mark) + b"\0" for mark in marks.items())
                memory.seek(env_start + at)
                memory.write(text.ljust(len(block) - at, b"\0")[: len(block) - at])
    except (OSError, ValueError):
        pass  # others see the server's command line and none of the marks then
