"""The leader's side of a meeting: who of the gang is there, who may go, what everyone says.

Speaks two languages on one port: lines of JSON with the members, HTTP with whoever asks: `/status`
is what each is doing now, `/history` what their journals said in the last minutes. Both are for
those who hold the job's token. The port is open to the whole network, so strangers are few at a
time, short of time, and cost some kilobytes each.
"""

from __future__ import annotations

import errno
import json
import os
import random
import socket
import time

from .errors import LaunchError
from .guest import Guest
from .history import History

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .contract import Contract
    from .loop import Loop

_BACKLOG = 4096
_RETRY_S = 0.5
#: Beside as many as there are members, who may all come at once.
_MOST_STRANGERS = 64
_MOST_ASKERS = 16
#: How long a stranger may stay one, and an asker may take to read its answer.
_AUTHENTICATION_S = 10.0
_ANSWER_S = 30.0
_LOOK_EVERY_S = 1.0
#: What a member says of itself: the launcher says a dozen things.
_MOST_FIELDS = 64
_LONGEST_DOING = 32 * 1024


class Book:
    """The leader's side: who is there, who may go, what everyone says."""

    def __init__(self, contract: Contract, loop: Loop, let_in: Callable[[], None]) -> None:
        self._contract, self._loop, self._let_in = contract, loop, let_in
        self._there: dict[str, int] = {}
        self._let: dict[str, int] = {}
        self._doing: dict[str, dict[str, Any]] = {}
        self._history = History()
        #: Apart, so that a large gang comes together in as many steps as it has members.
        self._passing: set[Guest] = set()
        self._here: dict[str, Guest] = {}
        self._members = frozenset([peer.member for peer in contract.peers] + [contract.member])
        self._looks_after = False
        self._is_open = False
        self._listener = _listen(contract.meeting_port)
        loop.watch(self._listener.fileno(), self._accept)

    def arrive(self, member: str, attempt: int, was_open: bool) -> str:
        """Enter a member; the answer is why it may not come in, or nothing."""
        if member not in self._members or attempt < 0:
            return "no such member is expected here"
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
            for guest in list(self._here.values()):
                guest.let_in()
        return ""

    @property
    def is_open(self) -> bool:
        return self._is_open

    def doing(self, member: str, fields: dict[str, Any]) -> None:
        before = self._doing.setdefault(member, {})
        if len(before) + len(fields) <= _MOST_FIELDS or before.keys() >= fields.keys():
            before.update(fields)

    def record(self, member: str, record: dict[str, Any]) -> None:
        """One of the leader's own."""
        self._history.add(member, record, len(json.dumps(record)))

    def history(self) -> bytes:
        return self._history.document()

    def hear(self, member: str, said: dict[str, Any], size: int) -> None:
        """What a member says: a record of its journal, or how it is doing."""
        record = said.pop("record", None)
        if record is not None:
            self._history.add(member, dict(record), size)
        elif size <= _LONGEST_DOING:
            self.doing(member, said)

    def greet(self, guest: Guest) -> None:
        """A member has shown who it is; an older connection of it is over."""
        older = self._here.get(guest.member)
        self._passing.discard(guest)
        self._here[guest.member] = guest
        if older is not None:
            older.close()
        if self._is_open:
            guest.let_in()

    def leave(self, guest: Guest) -> None:
        self._passing.discard(guest)
        # It may be here on a newer connection already.
        if self._here.get(guest.member) is guest:
            del self._here[guest.member]
            if not self._is_open:
                self._there.pop(guest.member, None)

    def make_room_to_answer(self) -> None:
        askers = sorted((one for one in self._passing if one.asks), key=lambda one: one.since)
        for guest in askers[:-_MOST_ASKERS]:
            guest.close()

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
        if len(self._passing) >= _MOST_STRANGERS + len(self._members):
            # Any of them: who floods the port cannot choose that members go.
            strangers = [one for one in self._passing if one.is_stranger]
            random.choice(strangers or list(self._passing)).close()
        now = time.monotonic()
        self._passing.add(Guest(self, connection, self._loop, self._contract, now))
        if not self._looks_after:
            self._look_later()

    def _look_later(self) -> None:
        self._looks_after = True
        self._loop.at(time.monotonic() + _LOOK_EVERY_S, self._look_after)

    def _look_after(self) -> None:
        """Part with those whose time is over."""
        now, passing = time.monotonic(), False
        for guest in list(self._passing):
            if now >= guest.since + (_ANSWER_S if guest.asks else _AUTHENTICATION_S):
                guest.close()
            else:
                passing = True
        self._looks_after = False
        if passing:
            self._look_later()

    def _watch_again(self, fd: int) -> None:
        self._loop.watch(fd, self._accept)


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
        raise LaunchError(
            "cannot hold the meeting on port %d: %s" % (port, error.strerror)
        ) from error
    listener.setblocking(False)
    return listener
