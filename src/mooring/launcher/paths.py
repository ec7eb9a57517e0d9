"""The connections of a member at one moment: who is at the other end, and what is on its way.

Between two calls of `changes` also what went over them, as the kernel's tcp_info counts it.
"""

from __future__ import annotations

import struct
import time

from . import sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

# Places in tcp_info (linux/tcp.h).
_RTT_US_AT, _RETRANSMITS_AT, _TIMES_AT = 68, 100, 168
_U32 = struct.Struct("=I")
_TIMES = struct.Struct("=QQQ")
_LOOPBACK_6 = b"\0" * 15 + b"\1"
#: Instead of a member: an address that none of them has.
OUTSIDE = "outside"
_RENEW_S = 5.0
_HURRY_S = 0.5
_MOST_PEERS = 16
_MOST_KEPT = 4096


class Paths:
    """Of the processes of one member."""

    def __init__(self, traffic: sockets.PeerTraffic) -> None:
        self._traffic = traffic
        self._inodes: set[int] = set()
        self._renewed_s = float("-inf")
        #: Socket's inode -> the member at its other end.
        self.peers: dict[int, str] = {}
        self._now: dict[bytes, sockets.Socket] = {}
        self._before: dict[bytes, tuple[int, ...]] = {}

    def look(self, pids: Iterable[int]) -> dict[str, int]:
        """Bytes on their way to each member, of connections that have any."""
        now_s = time.monotonic()
        if now_s - self._renewed_s > (_RENEW_S if self._inodes else _HURRY_S):
            self._inodes = sockets.socket_inodes(pids)
            self._renewed_s = now_s
        found = sockets.dump(self._inodes) if self._inodes else []
        self.peers = {connection.inode: self._name(connection) for connection in found}
        self._now = {connection.cookie: connection for connection in found}
        queued: dict[str, int] = {}
        for connection in found:
            if connection.queued:
                member = self.peers[connection.inode]
                queued[member] = queued.get(member, 0) + connection.queued
        return queued

    def _name(self, connection: sockets.Socket) -> str:
        loopback = connection.address.startswith(b"\x7f") or connection.address == _LOOPBACK_6
        if not loopback and self._traffic.is_outside(connection):
            return OUTSIDE
        return self._traffic.owner(connection)

    def changes(self) -> dict[str, dict[str, Any]]:
        """Member -> bytes, retransmits, seconds with data on its way, and limited by the other's
        or the own buffer, since the last call; round trip in milliseconds as it is now."""
        totals: dict[str, list[float]] = {}
        after: dict[bytes, tuple[int, ...]] = {}
        for cookie, connection in self._now.items():
            counts = _counts(connection)
            after[cookie] = counts
            before = self._before.get(cookie, (0,) * len(counts))
            # A connection that was not there before counts from its beginning: it is the program's.
            grown = [max(0, now - then) for now, then in zip(counts, before)]
            sums = totals.setdefault(self.peers[connection.inode], [0.0] * (len(grown) + 1))
            for place, value in enumerate(grown):
                sums[place] += value
            sums[-1] = max(sums[-1], _rtt_ms(connection))
        if len(self._before) > _MOST_KEPT:
            self._before.clear()
        self._before.update(after)
        busiest = sorted(totals, key=lambda member: -(totals[member][0] + totals[member][1]))
        return {member: _document(totals[member]) for member in busiest[:_MOST_PEERS]}


def _counts(connection: sockets.Socket) -> tuple[int, ...]:
    retransmits = _U32.unpack_from(connection.info, _RETRANSMITS_AT)[0]
    times = (0, 0, 0)
    if len(connection.info) >= _TIMES_AT + _TIMES.size:
        times = _TIMES.unpack_from(connection.info, _TIMES_AT)
    return (connection.sent, connection.received, retransmits, *times)


def _rtt_ms(connection: sockets.Socket) -> float:
    value: int = _U32.unpack_from(connection.info, _RTT_US_AT)[0]
    return value / 1000.0


def _document(sums: list[float]) -> dict[str, Any]:
    return {
        "sent": int(sums[0]),
        "received": int(sums[1]),
        "retransmits": int(sums[2]),
        "busy_s": round(sums[3] / 1e6, 3),
        "rwnd_s": round(sums[4] / 1e6, 3),
        "sndbuf_s": round(sums[5] / 1e6, 3),
        "rtt_ms": round(sums[6], 3),
    }
