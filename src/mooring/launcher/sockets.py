"""Bytes through the TCP sockets of the subtree, by peer.

The kernel counts bytes for each socket and tells them through netlink (sock_diag(7)); /proc/PID/io
does not count sockets, and interface counters cannot tell processes apart. The dump covers the
network namespace; the descriptors of the subtree's processes say which sockets are theirs.
"""

from __future__ import annotations

import os
import socket
import struct

from . import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, Mapping

    from . import nics

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST, _NLM_F_DUMP = 0x1, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_INFO = 2
# Every state of tcp_states.h but SYN_RECV (3), TIME_WAIT (6), LISTEN (10) and NEW_SYN_RECV (12):
# those carry no payload or have no owner.
_STATES = 0xFFF & ~(1 << 3 | 1 << 6 | 1 << 10)
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48s")
# inet_diag_msg: family, 3 x u8, ports (network order), source, destination, interface, cookie,
# expires, queues, uid, inode.
_MESSAGE = struct.Struct("=B3x2s2s16s16s4x8s4xII4xI")
_ATTRIBUTE = struct.Struct("=HH")
# tcp_info: 8 bytes of flags, 24 u32, two u64 of pacing, then these two.
_BYTES = struct.Struct("=QQ")
_BYTES_AT = 120
_MAPPED = b"\0" * 10 + b"\xff\xff"

# The kernel fills at most 32 KiB of a dump at once.
_DATAGRAM_BYTES = 1 << 15

OTHER = "other"


class Socket:
    """One TCP socket: who owns it, whom it talks to, what went through it since it was opened."""

    def __init__(
        self,
        cookie: bytes,
        inode: int,
        own: bytes,
        address: bytes,
        port: int,
        sent: int,
        received: int,
        queued: int = 0,
        info: bytes = b"",
    ) -> None:
        """`own` is the address at our end, `address` and `port` are the other end.

        `queued`: bytes sent but not acknowledged, or not yet sent. `info`: the kernel's tcp_info.
        """
        self.cookie = cookie
        self.inode = inode
        self.own = own
        self.address = address
        self.port = port
        self.sent = sent
        self.received = received
        self.queued = queued
        self.info = info


class PeerTraffic:
    """Totals by peer that never go back: a socket that closed keeps its last counts."""

    def __init__(
        self, peers: Iterable[tuple[str, str, list[int]]], cards: nics.Nics | None = None
    ) -> None:
        """`peers`: (member, numeric address, its listening ports). With `cards` also by card."""
        self._by_port: dict[tuple[bytes, int], str] = {}
        owners: dict[bytes, set[str]] = {}
        for member, address, ports in peers:
            packed = pack_address(address)
            owners.setdefault(packed, set()).add(member)
            for port in ports:
                self._by_port[packed, port] = member
        # A connection that a peer opened comes from a port that nobody announced: its address
        # tells who it is only where no other member has the same one.
        self._by_address = {
            packed: next(iter(members)) for packed, members in owners.items() if len(members) == 1
        }
        self._addresses = frozenset(owners)
        self._cards = cards
        self._open: dict[bytes, tuple[str, str, int, int]] = {}
        self._closed: dict[str, list[int]] = {}
        self._closed_by_card: dict[str, list[int]] = {}

    def measure(self, pids: Iterable[int]) -> dict[str, Any]:
        inodes = socket_inodes(pids)
        now: dict[bytes, tuple[str, str, int, int]] = {}
        if inodes:
            for found in dump(inodes):
                card = self._cards.of(found.own) if self._cards is not None else ""
                now[found.cookie] = (self.owner(found), card, found.sent, found.received)
        for cookie, (member, card, sent, received) in self._open.items():
            if cookie not in now:
                _add(self._closed, member, sent, received)
                _add(self._closed_by_card, card, sent, received)
        self._open = now
        totals = {member: list(pair) for member, pair in self._closed.items()}
        cards = {card: list(pair) for card, pair in self._closed_by_card.items()}
        for member, card, sent, received in now.values():
            _add(totals, member, sent, received)
            _add(cards, card, sent, received)
        measured: dict[str, Any] = {
            "tx_bytes": sum(pair[0] for pair in totals.values()),
            "rx_bytes": sum(pair[1] for pair in totals.values()),
            "peers": totals,
        }
        if self._cards is not None and self._cards.cells:
            measured["nics"] = {
                card: [cell, *cards.get(card, (0, 0))] for card, cell in self._cards.cells.items()
            }
        return measured

    def owner(self, found: Socket) -> str:
        """The member at the other end."""
        member = self._by_port.get((found.address, found.port))
        return member or self._by_address.get(found.address, OTHER)

    def is_outside(self, found: Socket) -> bool:
        """Nobody of the job has the address at the other end: storage, say."""
        return found.address not in self._addresses


def peer_addresses(
    peers: Iterable[Any], addresses: Mapping[str, list[str]]
) -> Iterator[tuple[str, str, list[int]]]:
    """The contract's peers with each address that their host resolved to."""
    for peer in peers:
        for address in addresses.get(peer.host, ()):
            yield peer.member, address, peer.ports


def socket_inodes(pids: Iterable[int]) -> set[int]:
    inodes = set()
    for pid in pids:
        folder = "/proc/%d/fd/" % pid
        for name in procfs.names(folder):
            try:
                target = os.readlink(folder + name)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(int(target[8:-1]))
    return inodes


def dump(inodes: set[int]) -> list[Socket]:
    """The TCP sockets of this network namespace whose inode is one of `inodes`."""
    found: list[Socket] = []
    try:
        netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
    except (OSError, AttributeError):
        return found
    try:
        netlink.settimeout(1.0)
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _REQUEST.pack(
                family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _STATES, b""
            )
            netlink.send(
                _HEADER.pack(
                    _HEADER.size + len(request),
                    _SOCK_DIAG_BY_FAMILY,
                    _NLM_F_REQUEST | _NLM_F_DUMP,
                    family,
                    0,
                )
                + request
            )
            while _parse(netlink.recv(_DATAGRAM_BYTES), inodes, found):
                pass
    except OSError:
        pass
    finally:
        netlink.close()
    return found


def _parse(data: bytes, inodes: set[int], found: list[Socket]) -> bool:
    """Takes the sockets out of one datagram; False after the last of a dump."""
    at, end = 0, len(data)
    while at + _HEADER.size <= end:
        length, kind, _, _, _ = _HEADER.unpack_from(data, at)
        if kind in (_NLMSG_DONE, _NLMSG_ERROR) or length < _HEADER.size:
            return False
        body = at + _HEADER.size
        if kind == _SOCK_DIAG_BY_FAMILY:
            family, _, port, own, address, cookie, _, queued, inode = _MESSAGE.unpack_from(
                data, body
            )
            if inode in inodes:
                info = _info(data, body + _MESSAGE.size, at + length)
                if info:
                    sent, received = _BYTES.unpack_from(info, _BYTES_AT)
                    ends = [
                        end[:4] if family == socket.AF_INET else _unmapped(end)
                        for end in (own, address)
                    ]
                    number = int.from_bytes(port, "big")
                    found.append(
                        Socket(
                            cookie, inode, ends[0], ends[1], number, sent, received, queued, info
                        )
                    )
        at += (length + 3) & ~3
    return True


def _info(data: bytes, at: int, end: int) -> bytes:
    """Of the attributes of one socket its tcp_info; empty where it has no byte counts."""
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return b""
        if kind == _INET_DIAG_INFO:
            # Kernels before 4.1 have a shorter tcp_info.
            if length - _ATTRIBUTE.size < _BYTES_AT + _BYTES.size or at + length > end:
                return b""
            return data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return b""


def pack_address(address: str) -> bytes:
    if ":" in address:
        return _unmapped(socket.inet_pton(socket.AF_INET6, address.partition("%")[0]))
    return socket.inet_pton(socket.AF_INET, address)


def _unmapped(address: bytes) -> bytes:
    """An IPv4 address that an IPv6 socket talks to is the same address."""
    return address[12:] if address.startswith(_MAPPED) else address


def _add(totals: dict[str, list[int]], member: str, sent: int, received: int) -> None:
    pair = totals.setdefault(member, [0, 0])
    pair[0] += sent
    pair[1] += received
