"""The leader's side of a meeting: who of the gang is there, who may go, what everyone says.

Speaks two languages on one port: lines of JSON with the members, HTTP with whoever asks: `/status`
is what each is doing now, `/history` what their journals said in the last minutes.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time

from .errors import LauncherError
from .history import History
from .talk import Talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .contract import Contract
    from .loop import Loop

_BACKLOG = 4096
_LONGEST_LINE = 64 * 1024
_RETRY_S = 0.5


class Book:
    """The leader's side: who is there, who may go, what everyone says."""

    def __init__(self, contract: Contract, loop: Loop, let_in: Callable[[], None]) -> None:
        self._contract, self._loop, self._let_in = contract, loop, let_in
        self._there: dict[str, int] = {}
        self._let: dict[str, int] = {}
        self._doing: dict[str, dict[str, Any]] = {}
        self._history = History()
        self._guests: set[_Guest] = set()
        self._is_open = False
        self._listener = _listen(contract.meeting_port)
        loop.watch(self._listener.fileno(), self._accept)

    def arrive(self, member: str, attempt: int, was_open: bool) -> str:
        """Enter a member; the answer is why it may not come in, or nothing."""
        if not was_open and self._let.get(member, -1) >= attempt:
            return "attempt %d of %s has already run" % (attempt, member)
        self._there[member] = attempt
        if was_open:
            self._let[member] = max(attempt, self._let.get(member, -1))
            self._is_open = True
        if len(self._there) >= self._contract.meeting_members:
            self._is_open = True
        if self._is_open:
            for name, number in self._there.items():
                self._let[name] = max(number, self._let.get(name, -1))
            self._let_in()
            for guest in list(self._guests):
                guest.let_in()
        return ""

    @property
    def is_open(self) -> bool:
        return self._is_open

    def doing(self, member: str, fields: dict[str, Any]) -> None:
        self._doing.setdefault(member, {}).update(fields)

    def record(self, member: str, record: dict[str, Any]) -> None:
        self._history.add(member, record)

    def history(self) -> bytes:
        return self._history.document()

    def leave(self, guest: _Guest) -> None:
        self._guests.discard(guest)
        # It may be here on a newer connection already.
        again = any(other.member == guest.member for other in self._guests)
        if guest.member and not self._is_open and not again:
            self._there.pop(guest.member, None)

    def status(self) -> bytes:
        body = {
            "run": self._contract.run,
            "epoch": self._contract.epoch,
            "open": self._is_open,
            "there": sorted(self._there),
            "members": self._doing,
            "t": round(time.time(), 3),
        }
        return json.dumps(body, separators=(",", ":")).encode("utf-8")

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                fd = self._listener.fileno()
                self._loop.watch(fd, None)
                self._loop.at(time.monotonic() + _RETRY_S, lambda: self._watch_again(fd))
            return
        self._guests.add(_Guest(self, connection, self._loop, self._contract))

    def _watch_again(self, fd: int) -> None:
        self._loop.watch(fd, self._accept)


class _Guest:
    """One connection to the leader: a member, or somebody who asks for the status."""

    def __init__(
        self, book: Book, connection: socket.socket, loop: Loop, contract: Contract
    ) -> None:
        self._book, self._contract = book, contract
        self._rest = b""
        self._told_open = False
        self.member = ""
        connection.setblocking(False)
        self._talk = Talk(loop, connection, self._heard, lambda: book.leave(self))

    def let_in(self) -> None:
        if self.member and not self._told_open:
            self._told_open = True
            self._talk.send(b"open\n")

    def _heard(self, data: bytes) -> None:
        self._rest += data
        if not self.member and self._rest.startswith(b"GET "):
            if b"\r\n\r\n" in self._rest or len(self._rest) > _LONGEST_LINE:
                self._answer()
            return
        *lines, self._rest = self._rest.split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._talk.close()
            return
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            said = json.loads(line.decode("utf-8"))
            if self.member:
                record = said.pop("record", None)
                if record is not None:
                    self._book.record(self.member, dict(record))
                self._book.doing(self.member, dict(said))
                return
            contract = self._contract
            run, epoch = said["run"], said["epoch"]
            member, attempt = str(said["member"]), int(said["attempt"])
        except (ValueError, KeyError, TypeError, AttributeError):
            self._talk.close()
            return
        why = "another run or epoch meets here"
        if run == contract.run and epoch == contract.epoch:
            why = self._book.arrive(member, attempt, bool(said.get("open")))
        if why:
            self._talk.send(("refused: %s\n" % why).encode("utf-8"), last=True)
            return
        self.member = member
        if self._book.is_open:
            self.let_in()

    def _answer(self) -> None:
        asks_history = self._rest.startswith(b"GET /history ")
        body = self._book.history() if asks_history else self._book.status()
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            "Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
        )
        self._talk.send(head.encode("ascii") + body, last=True)


def _listen(port: int) -> socket.socket:
    try:
        if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
            listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            address = "::"
        else:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            address = ""
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        raise LauncherError(
            "cannot hold the meeting on port %d: %s" % (port, error.strerror)
        ) from error
    listener.setblocking(False)
    return listener
