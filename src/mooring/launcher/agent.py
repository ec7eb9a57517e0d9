"""The rank agent: lets another member start commands in this member's slot, in place of sshd.

A member that serves ranks has no command of its own. Whoever holds the job's token may run a shell
command here: the caller gets its output and its exit code, its signals arrive, and when the caller
is gone the command is ended. What a command daemonises stays (OpenMPI's daemon does so) until the
member itself is stopped.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import socket
import time
from functools import partial

from . import children, proof, wire
from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    from .loop import Loop

_BACKLOG = 128
_STRANGERS = 64
_AUTHENTICATION_S = 10.0
_ENDING_S = 2.0
# A caller that reads slowly slows its command down instead of filling this process's memory.
_UNSENT_BYTES = 1 << 20
_PIPE_BYTES = 1 << 20


class RankServer:
    """Listens from the start, so that a taken port is known before the gang runs."""

    def __init__(
        self, loop: Loop, address: str, port: int, token: str, env: Mapping[str, str], cwd: str
    ) -> None:
        self.loop = loop
        self.token = token
        self.env = env
        self.cwd = cwd
        self.calls: set[_Call] = set()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((address, port))
            self._listener.listen(_BACKLOG)
        except OSError as error:
            raise LaunchError(
                "rank agent cannot listen on %s port %d: %s"
                % (address or "all addresses", port, error.strerror)
            ) from error
        self._listener.setblocking(False)

    def serve(self) -> None:
        self.loop.watch(self._listener.fileno(), self._accept)

    def ended(self, pid: int, code: int) -> None:
        for call in list(self.calls):
            if call.child is not None and call.child.pid == pid:
                call.command_ended(code)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # The connection stays in the backlog: look again when descriptors may be free.
                self.loop.watch(self._listener.fileno(), None)
                self.loop.at(time.monotonic() + 0.1, self.serve)
            return
        strangers = [call for call in self.calls if call.is_stranger]
        if len(strangers) >= _STRANGERS:
            # Any of them: who floods the port cannot choose that the job's own callers go.
            random.choice(strangers).part()
        self.calls.add(_Call(self, connection))


class _Call:
    """One caller and, once it has shown that it holds the token, its command."""

    def __init__(self, agent: RankServer, connection: socket.socket) -> None:
        self.child: children.ChildProcess | None = None
        self._agent = agent
        self._connection = connection
        self._inbox = wire.Inbox()
        self._unsent = bytearray()
        self._nonces = proof.new_nonce()
        self._proven = False
        self._code: int | None = None
        self._open_pipes: dict[int, bytes] = {}
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        agent.loop.at(time.monotonic() + _AUTHENTICATION_S, self._too_late)
        self._send(wire.NONCE, self._nonces)

    @property
    def is_stranger(self) -> bool:
        return not self._proven

    # From the caller.

    def _readable(self) -> None:
        try:
            data = self._connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._caller_gone()
            return
        try:
            self._take(data)
        except Exception:
            # Whatever a caller says ends its call and nothing else.
            self._caller_gone()

    def _take(self, data: bytes) -> None:
        longest = wire.LONGEST_REQUEST_BYTES if self._proven else wire.LONGEST_HELLO_BYTES
        for kind, payload in self._inbox.feed(data, longest=longest):
            if not self._proven and kind == wire.HELLO:
                self._welcome(payload)
            elif self._proven and self.child is None and kind == wire.REQUEST:
                self._begin(payload)
            elif self.child is not None and kind == wire.SIGNAL and len(payload) == 1:
                self._forward(payload[0])
            else:
                raise wire.Garbled

    def _welcome(self, payload: bytes) -> None:
        token = self._agent.token
        theirs = wire.open_hello(token, self._nonces, payload)
        if theirs is None:
            self._refuse("the token is wrong")
            return
        self._proven = True
        self._send(wire.SHOWN, proof.prove(token, proof.AGENT, self._nonces, theirs))
        self._nonces += theirs

    def _begin(self, payload: bytes) -> None:
        body = wire.open_request(self._agent.token, self._nonces, payload)
        if body is None:
            self._refuse("the token is wrong")
            return
        try:
            self.child = self._started(json.loads(body.decode("utf-8")))
        except LaunchError as error:
            self._refuse(error.reason)
            return
        self._open_pipes = {self.child.out: wire.OUT, self.child.err: wire.ERR}
        self._watch_pipes(True)

    def _started(self, request: dict[str, Any]) -> children.ChildProcess:
        """A shell's command, as with ssh; or a rank's own words, with what its daemon set."""
        env, cwd = self._agent.env, self._agent.cwd
        if "command" in request:
            argv, terminal = ["sh", "-c", str(request["command"])], False
        else:
            argv, terminal = [str(word) for word in request["argv"]], request["terminal"] is True
            env = {**env, **{str(name): str(value) for name, value in request["env"].items()}}
            cwd = str(request["cwd"])
        program = children.find_program(argv[0], env, cwd)
        return children.spawn(program, argv, env, cwd, session=True, terminal=terminal)

    def _forward(self, number: int) -> None:
        if self.child is not None and self.child.code is None:
            children.signal_all(children.below([self.child.pid]), number)

    def _caller_gone(self) -> None:
        """What the command started goes with its caller: first asked, then made to."""
        self._close()
        if self.child is None or self.child.code is not None:
            return
        root = self.child
        self._forward(signal.SIGTERM)

        def force() -> None:
            if root.code is None:
                children.kill_all([root.pid])

        self._agent.loop.at(time.monotonic() + _ENDING_S, force)

    def _too_late(self) -> None:
        if self.child is None and self in self._agent.calls:
            self._close()

    def part(self) -> None:
        """End a call that has shown nothing yet."""
        self._close()

    # To the caller.

    def _refuse(self, reason: str) -> None:
        self._send(wire.ERR, ("mooring: %s\n" % reason).encode("utf-8", "replace"))
        self._send(wire.EXIT, bytes([wire.FAILED]))
        self._close()

    def _pipe_readable(self, fd: int) -> None:
        try:
            data = children.read_output(fd, 65536)
        except BlockingIOError:
            return
        if data:
            self._send(self._open_pipes[fd], data)
            return
        self._agent.loop.watch(fd, None)
        os.close(fd)
        del self._open_pipes[fd]

    def command_ended(self, code: int) -> None:
        """Sends what is in the pipes, as sshd does, without waiting for daemons that hold them."""
        assert self.child is not None
        self.child.code = code
        if self._connection.fileno() < 0:
            self._agent.calls.discard(self)
            return
        for fd, kind in list(self._open_pipes.items()):
            try:
                # More than a pipe holds, so all of the command's own output; a terminal gives it
                # in parts.
                while data := children.read_output(fd, _PIPE_BYTES):
                    self._send(kind, data)
            except BlockingIOError:
                pass
        self._code = code
        self._send(wire.EXIT, bytes([code]))

    def _send(self, kind: bytes, payload: bytes) -> None:
        self._unsent += wire.frame(kind, payload)
        self._flush()

    def _flush(self) -> None:
        if self._connection.fileno() < 0:
            return
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._caller_gone()
            return
        if not self._unsent and self._code is not None:
            self._close()
            return
        on_write = self._flush if self._unsent else None
        self._agent.loop.watch(self._connection.fileno(), self._readable, on_write)
        self._watch_pipes(len(self._unsent) < _UNSENT_BYTES)

    def _watch_pipes(self, wanted: bool) -> None:
        for fd in self._open_pipes:
            self._agent.loop.watch(fd, partial(self._pipe_readable, fd) if wanted else None)

    def _close(self) -> None:
        self._inbox, self._unsent = wire.Inbox(), bytearray()
        if self._connection.fileno() >= 0:
            self._agent.loop.watch(self._connection.fileno(), None)
            self._connection.close()
        for fd in self._open_pipes:
            self._agent.loop.watch(fd, None)
            os.close(fd)
        self._open_pipes = {}
        # While the command lives its end must still be noticed here.
        if self.child is None or self.child.code is not None:
            self._agent.calls.discard(self)
