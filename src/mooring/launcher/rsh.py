"""`rsh HOST COMMAND...`: what mpirun calls in place of ssh.

Finds the rank agent of HOST, has it run the command, and behaves as if the command ran here:
its output, its exit code, and the signals that arrive.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time

from . import proof, wire
from .errors import LaunchError
from .loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

HOSTS_VARIABLE = "MOORING_RANK_HOSTS"
TOKEN_VARIABLE = "MOORING_RANK_TOKEN"
# An agent that restarts with its member is back within this time.
_CONNECT_S = 10.0
_PAUSE_S = 0.1


def main(host: str, words: list[str]) -> int:
    try:
        address, port = _find(host)
        # ssh joins its words with blanks and leaves them to the other side's shell; mpirun
        # quotes for exactly that.
        return call(host, address, port, token(), {"command": " ".join(words)})
    except LaunchError as error:
        complain(error.reason)
        return wire.FAILED


def call(host: str, address: str, port: int, token: str, request: Mapping[str, Any]) -> int:
    """Has the agent of `host` carry out `request`, whose output appears here; its exit code."""
    return _Caller(_connect(host, address, port), token, request).run()


def complain(reason: str) -> None:
    _write(2, ("mooring: %s\n" % reason).encode("utf-8", "replace"))


def token() -> str:
    """The job's token, which everybody who may start commands has."""
    return _variable(TOKEN_VARIABLE)


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise LaunchError("%s is not set: not inside a job?" % name)
    return value


def _find(host: str) -> tuple[str, int]:
    path = _variable(HOSTS_VARIABLE)
    try:
        with open(path, encoding="utf-8") as file:
            hosts = json.load(file)
        name = host.rpartition("@")[2]
        if name not in hosts:
            known = ", ".join(sorted(hosts)) or "none"
            raise LaunchError("no member of this job is called %s (known: %s)" % (name, known))
        address, port = hosts[name]
        return str(address), int(port)
    except OSError as error:
        raise LaunchError("%s: %s" % (path, error.strerror)) from error
    except (ValueError, TypeError) as error:
        raise LaunchError("%s: not {host: [address, port]}" % path) from error


def _connect(host: str, address: str, port: int) -> socket.socket:
    deadline = time.monotonic() + _CONNECT_S
    while True:
        try:
            return socket.create_connection((address, port), timeout=_CONNECT_S)
        except OSError as error:
            if time.monotonic() >= deadline:
                raise LaunchError(
                    "rank agent of %s at %s port %d: %s"
                    % (host, address, port, error.strerror or error)
                ) from error
        time.sleep(_PAUSE_S)


class _Caller:
    """One command run elsewhere."""

    def __init__(self, connection: socket.socket, token: str, request: Mapping[str, Any]) -> None:
        self._connection = connection
        self._token = token
        self._request = request
        self._inbox = wire.Inbox()
        self._nonce, self._agents = proof.new_nonce(), b""
        self._shown = False
        self._code: int | None = None
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._loop = Loop()
        self._loop.watch(connection.fileno(), self._readable)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._loop.on_signal(number, self._forward)

    def run(self) -> int:
        while self._code is None:
            self._loop.turn()
        return self._code

    def _readable(self) -> None:
        try:
            data = self._connection.recv(65536)
        except OSError:
            data = b""
        if not data:
            raise LaunchError("lost the connection to the rank agent")
        try:
            frames = self._inbox.feed(data)
        except wire.Garbled:
            raise LaunchError("the rank agent's answer makes no sense") from None
        for kind, payload in frames:
            if kind == wire.NONCE:
                self._agents = payload
                self._send(wire.HELLO, wire.close_hello(self._token, payload, self._nonce))
            elif kind == wire.SHOWN:
                self._ask(payload)
            elif kind == wire.OUT and self._shown:
                _write(1, payload)
            elif kind == wire.ERR:
                _write(2, payload)
            elif kind == wire.EXIT:
                # Before the agent has shown itself it can only have refused.
                self._code = payload[0] if self._shown and payload else wire.FAILED

    def _ask(self, shown: bytes) -> None:
        """The command is for the job's own agent: whoever else listens there does not get it."""
        if not proof.holds(self._token, shown, proof.AGENT, self._agents, self._nonce):
            raise LaunchError("the rank agent does not hold the job's token")
        self._shown = True
        body = json.dumps(self._request).encode("ascii")
        nonces = self._agents + self._nonce
        self._send(wire.REQUEST, wire.close_request(self._token, nonces, body))

    def _forward(self, number: int) -> None:
        self._send(wire.SIGNAL, bytes([number]))

    def _send(self, kind: bytes, payload: bytes) -> None:
        try:
            self._connection.sendall(wire.frame(kind, payload))
        except OSError:
            raise LaunchError("lost the connection to the rank agent") from None


def _write(fd: int, data: bytes) -> None:
    """A reader that has gone away does not end the command, as with ssh."""
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        pass
