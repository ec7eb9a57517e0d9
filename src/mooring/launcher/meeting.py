"""The gate of a gang in pods: launchers meet at the first member's, which lets them in together.

No API server is asked, so a gang of any size starts without a single call. The same connections
carry what each member is doing, and the meeting point answers `GET /status` with all of it.

A line of JSON each way. Both sides first show that they hold the job's token. A member says who it
is, whether its gate is already open (it lost the connection, not its place) and later how it is
doing; it hears `open`, or why it may not join.
"""

from __future__ import annotations

import errno
import json
import socket
import time

from . import proof
from .book import Book
from .guest import GuestIdentity
from .history import MOST_KEPT
from .sharing import KEPT
from .talk import LONGEST_GREETING, LONGEST_LINE, LineReader, Talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .contract import Contract
    from .loop import Loop

_RETRY_S = 0.5
_LATER_S = 5.0


class Gate:
    """What a member has to do with the meeting, whether it leads it or comes to it."""

    def __init__(
        self, contract: Contract, loop: Loop, address: Callable[[], str], opened: Callable[[], None]
    ) -> None:
        self._contract, self._loop, self._opened = contract, loop, opened
        self.open = False
        self.refusal = ""
        self._book: Book | None = None
        self._visitor: _Visitor | None = None
        if contract.meeting_leads:
            self._book = Book(contract, loop, self._let_in)
            self._book.arrive(contract.member, contract.attempt, was_open=False)
        else:
            self._visitor = _Visitor(contract, loop, address, self._let_in, self._refuse)

    def tell(self, fields: dict[str, Any]) -> None:
        """How this member is doing now."""
        if self._book is not None:
            self._book.doing(self._contract.member, fields)
        elif self._visitor is not None:
            self._visitor.tell(fields)

    def pass_on(self, record: dict[str, Any]) -> None:
        """A record of this member's journal."""
        if self._book is not None:
            self._book.record(self._contract.member, record)
        elif self._visitor is not None:
            self._visitor.pass_on(record)

    def _let_in(self) -> None:
        if not self.open:
            self.open = True
            self._opened()

    def _refuse(self, why: str) -> None:
        self.refusal = why


class _Visitor:
    """A member's side: connects, says who it is, comes back if the connection breaks."""

    def __init__(
        self,
        contract: Contract,
        loop: Loop,
        address: Callable[[], str],
        let_in: Callable[[], None],
        refuse: Callable[[str], None],
    ) -> None:
        self._contract, self._loop, self._address = contract, loop, address
        self._let_in, self._refuse = let_in, refuse
        self._talk: Talk | None = None
        self._lines = LineReader()
        self._nonce = b""
        self._welcome = False
        self._open = False
        self._doing: dict[str, Any] = {}
        self._kept: list[dict[str, Any]] = []
        self._connect()

    def tell(self, fields: dict[str, Any]) -> None:
        self._doing.update(fields)
        if self._talk is not None and self._welcome and not self._talk.behind:
            self._say(self._doing)

    def pass_on(self, record: dict[str, Any]) -> None:
        kept = record["kind"] in KEPT
        if kept and len(self._kept) < MOST_KEPT:
            self._kept.append(record)
        if self._talk is not None and self._welcome and (kept or not self._talk.behind):
            self._say({"record": record})

    def _connect(self) -> None:
        address = self._address()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        code = connection.connect_ex((address, self._contract.meeting_port))
        if code not in (0, errno.EINPROGRESS):
            connection.close()
            self._come_again()
            return
        self._loop.watch(connection.fileno(), None, lambda: self._connected(connection))

    def _connected(self, connection: socket.socket) -> None:
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._loop.watch(connection.fileno(), None)
            connection.close()
            self._come_again()
            return
        self._lines, self._welcome = LineReader(), False
        self._nonce = proof.new_nonce()
        self._talk = Talk(self._loop, connection, self._heard, self._come_again)
        self._say({"hello": self._nonce.hex()})

    def _enter(self, answer: dict[str, Any]) -> None:
        """The host has shown itself; only then is it told anything."""
        contract = self._contract
        theirs = proof.from_hex(answer["nonce"], proof.NONCE_BYTES)
        shown = proof.from_hex(answer["proof"], proof.PROOF_BYTES)
        if not proof.holds(contract.meeting_token, shown, proof.HOST, self._nonce, theirs):
            raise ValueError("not the meeting of this job")
        me = GuestIdentity(
            contract.run, contract.epoch, contract.member, contract.attempt, self._open
        )
        made = proof.prove(contract.meeting_token, proof.GUEST, self._nonce + theirs, me.signed())
        self._welcome = True
        self._say(
            {
                "run": me.run,
                "epoch": me.epoch,
                "member": me.member,
                "attempt": me.attempt,
                "open": me.was_open,
                "proof": made.hex(),
            }
        )
        if self._doing:
            self._say(self._doing)
        for record in self._kept:
            self._say({"record": record})

    def _say(self, fields: dict[str, Any]) -> None:
        if self._talk is not None:
            line = json.dumps(fields, separators=(",", ":")).encode("utf-8")
            if len(line) <= LONGEST_LINE:
                self._talk.send(line + b"\n")

    def _heard(self, data: bytes) -> None:
        for line in self._lines.feed(data, LONGEST_GREETING):
            if not self._welcome:
                self._enter(json.loads(line.decode("utf-8")))
            elif line == b"open":
                self._open = True
                self._let_in()
            elif line.startswith(b"refused: "):
                self._refuse(line[9:].decode("utf-8", "replace"))

    def _come_again(self) -> None:
        self._talk, self._welcome = None, False
        self._loop.at(time.monotonic() + (_LATER_S if self._open else _RETRY_S), self._connect)
