"""Ports for members that share this machine's network, reserved across runs.

A port that is merely found free can be taken by anybody before the member binds it. So ports
come from below the kernel's ephemeral range (no outgoing connection lands on them), and each
is held by a lock from the moment it is chosen until the run ends: two runs never choose the
same one, and a killed run gives its ports back by dying.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable, Iterator

from mooring.model.errors import RunFailed
from mooring.record import locks_dir
from mooring.record.locks import NumberedLocks

FIRST_PORT = 21000
#: Linux hands out 32768 and up for outgoing connections (ip_local_port_range).
LAST_PORT = 32700
#: In a network namespace of our own there is nobody else: start where TensorFlow users expect.
FIRST_PRIVATE_PORT = 2222


class MachinePorts:
    """Reservations of one run on the machine's own network."""

    def __init__(self) -> None:
        self._locks = NumberedLocks(locks_dir() / "ports")

    def take(self) -> int:
        """A free port, reserved until `close`."""
        for port in _candidates():
            if self._locks.take(port):
                if _can_bind(port):
                    return port
                self._locks.release(port)
        raise RunFailed(f"no free port between {FIRST_PORT} and {LAST_PORT} is left")

    def take_fixed(self, port: int, wanted_by: str) -> int:
        """The port that the user fixed; RunFailed if anybody has it."""
        if port in self._locks.held:
            raise RunFailed(f"{wanted_by}: port {port} is wanted by two members on one machine")
        if not self._locks.take(port):
            raise RunFailed(f"{wanted_by}: port {port} is held by another run (see `moor ps`)")
        if not _can_bind(port):
            self._locks.release(port)
            raise RunFailed(
                f"{wanted_by}: port {port} is in use on this machine by another program"
            )
        return port

    def release_all(self) -> None:
        for port in list(self._locks.held):
            self._locks.release(port)

    def close(self) -> None:
        self._locks.close()


class PrivatePorts:
    """Ports inside a run's own network namespaces, where nobody else is.

    One counter for all nodes: a member's port does not depend on the node that it lands on.
    """

    def __init__(self) -> None:
        self._next = FIRST_PRIVATE_PORT
        self._fixed: set[int] = set()

    def reserve(self, ports: Iterable[int]) -> None:
        """Keep the ports that users fixed out of those that are chosen."""
        self._fixed.update(ports)

    def take(self) -> int:
        while self._next in self._fixed:
            self._next += 1
        self._next += 1
        return self._next - 1


def _candidates() -> Iterator[int]:
    # Start at a place that differs between processes, so that concurrent runs rarely meet.
    span = LAST_PORT - FIRST_PORT
    start = (os.getpid() * 61) % span
    for step in range(span):
        yield FIRST_PORT + (start + step) % span


def _can_bind(port: int) -> bool:
    """Whether the port is free on every address, for IPv4 and, where it exists, IPv6."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        with probe:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # As servers do: connections in TIME_WAIT do not keep the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if family == socket.AF_INET6 and error.errno in _NO_IPV6:
                    continue
                return False
    return True


#: IPv6 is compiled in but switched off.
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
