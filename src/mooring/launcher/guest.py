"""One connection to the leader of a meeting: a member, somebody with a question, or a stranger.

A stranger has a short time and few bytes to show that it holds the job's token. Then it is a member
that says how it is doing, or an asker that gets one answer.
"""

from __future__ import annotations

import json

from . import proof
from .talk import LONGEST_GREETING, LONGEST_LINE, LineReader, Talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from .book import Book
    from .contract import Contract
    from .loop import Loop


class Guest:
    """`member` is its name once it has shown who it is; `since` is when it came."""

    def __init__(
        self, book: Book, connection: socket.socket, loop: Loop, contract: Contract, since: float
    ) -> None:
        self._book, self._contract = book, contract
        self._lines = LineReader()
        self._nonces = b""
        self._question, self._head_bytes = b"", 0
        self._told_open = False
        self.member = ""
        self.asks = False
        self.since = since
        connection.setblocking(False)
        self._talk = Talk(loop, connection, self._heard, lambda: book.leave(self))

    @property
    def is_stranger(self) -> bool:
        return not self.member and not self.asks

    def close(self) -> None:
        self._talk.close()

    def let_in(self) -> None:
        if self.member and not self._told_open:
            self._told_open = True
            self._talk.send(b"open\n")

    def _heard(self, data: bytes) -> None:
        if self.asks:
            return
        for line in self._lines.feed(data, LONGEST_LINE if self.member else LONGEST_GREETING):
            if self._talk.closed or self.asks:
                return
            if self._question or (not self._nonces and line.startswith(b"GET ")):
                self._ask(line)
            else:
                said = json.loads(line.decode("utf-8"))
                if self.member:
                    self._book.hear(self.member, said, len(line))
                elif self._nonces:
                    self._enter(said)
                else:
                    self._show_who_is_here(said)

    def _show_who_is_here(self, said: Any) -> None:
        """The host proves itself first: a member tells nothing to an impostor."""
        theirs, own = proof.from_hex(said["hello"], proof.NONCE_BYTES), proof.new_nonce()
        self._nonces = theirs + own
        shown = proof.prove(self._contract.meeting_token, proof.HOST, theirs, own)
        answer = {"nonce": own.hex(), "proof": shown.hex()}
        self._talk.send(json.dumps(answer).encode("ascii") + b"\n")

    def _enter(self, said: Any) -> None:
        contract = self._contract
        identity = GuestIdentity(
            str(said["run"]),
            int(said["epoch"]),
            str(said["member"]),
            int(said["attempt"]),
            said["open"] is True,
        )
        shown = proof.from_hex(said["proof"], proof.PROOF_BYTES)
        if not proof.holds(
            contract.meeting_token, shown, proof.GUEST, self._nonces, identity.signed()
        ):
            raise ValueError("the token is wrong")
        why = "another run or epoch meets here"
        if (identity.run, identity.epoch) == (contract.run, contract.epoch):
            why = self._book.arrive(identity.member, identity.attempt, identity.was_open)
        if why:
            self._talk.send(("refused: %s\n" % why).encode("utf-8"), last=True)
            return
        self.member = identity.member
        self._book.greet(self)

    def _ask(self, line: bytes) -> None:
        """The first line of a request says all that is asked; the rest of its head is let pass."""
        self._question = self._question or line
        self._head_bytes += len(line)
        if self._head_bytes > LONGEST_GREETING:
            raise ValueError("a head that is too long")
        if not line.strip():
            self._answer(self._question)

    def _answer(self, line: bytes) -> None:
        target = line.decode("ascii").split(" ")[1]
        path, _, query = target.partition("?")
        status, body, shown = "200 OK", b"", ""
        try:
            token = self._contract.meeting_token
            nonce = proof.asked_by_holder(token, path, query)
            body = self._book.history() if path == "/history" else self._book.status()
            shown = proof.prove(token, proof.ANSWER, nonce, body).hex()
        except ValueError as error:
            status, body = "403 Forbidden", json.dumps({"message": str(error)}).encode("utf-8")
        self.asks = True
        self._book.make_room_to_answer()
        head = (
            "HTTP/1.1 %s\r\nContent-Type: application/json\r\nMooring-Proof: %s\r\n"
            "Content-Length: %d\r\nConnection: close\r\n\r\n" % (status, shown, len(body))
        )
        self._talk.send(head.encode("ascii") + body, last=True)


class GuestIdentity:
    """Which attempt of which member of which gang; `was_open`: its gate is open already."""

    def __init__(self, run: str, epoch: int, member: str, attempt: int, was_open: bool) -> None:
        self.run, self.epoch, self.member = run, epoch, member
        self.attempt, self.was_open = attempt, was_open

    def signed(self) -> bytes:
        """What the proof is made over."""
        fields = [self.run, self.epoch, self.member, self.attempt, self.was_open]
        return json.dumps(fields).encode("ascii")
