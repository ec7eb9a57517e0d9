"""Waiting until the names of all peers resolve.

On Kubernetes a pod's name appears some time after the pod; frameworks give up or hang on it in
their own ways. A look-up blocks for as long as the resolver likes, so it happens in a process of
its own, which the loop can outlive.
"""

from __future__ import annotations

import os
import signal
import time

from . import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

    from .contract import Peer

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class Resolver:
    """`addresses` fills (host -> numeric addresses) while `fd` is read by the loop."""

    def __init__(self, peers: Sequence[Peer]) -> None:
        self.addresses: dict[str, list[str]] = {}
        self._peers = peers
        self._rest = b""
        self._ended = False
        self.fd: int | None = None
        self._pid = 0
        unknown = []
        for host in dict.fromkeys(peer.host for peer in peers):
            numeric = numeric_address(host)
            if numeric is None:
                unknown.append(host)
            else:
                self.addresses[host] = [numeric]
        if unknown:
            self._start(unknown)

    @property
    def done(self) -> bool:
        return all(peer.host in self.addresses for peer in self._peers)

    def missing(self) -> str:
        """`ps-0 (host), worker-1 (host)`: the peers that do not resolve yet."""
        lost = [peer for peer in self._peers if peer.host not in self.addresses]
        words = ["%s (%s)" % (peer.member, peer.host) for peer in lost[:5]]
        if len(lost) > len(words):
            words.append("and %d more" % (len(lost) - len(words)))
        return ", ".join(words)

    def readable(self) -> bool:
        """Takes over what has been resolved; False once no more will come."""
        assert self.fd is not None
        data = os.read(self.fd, 65536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            host, *addresses = os.fsdecode(line).split(" ")
            self.addresses[host] = addresses
        self._ended = not data
        return not self._ended

    def close(self) -> None:
        if self.fd is None:
            return
        os.close(self.fd)
        self.fd = None
        try:
            # One that has ended may have been reaped: its number may be another process's.
            if not self._ended:
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def _start(self, hosts: list[str]) -> None:
        self.fd, child_end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                if linux.AVAILABLE:
                    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
                _resolve(hosts, child_end)
            finally:
                os._exit(0)
        os.close(child_end)


def numeric_address(host: str) -> str | None:
    if host.replace(".", "").isdigit() and host.count(".") == 3:
        return host
    import socket

    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, host))
        except OSError:
            continue
    return None


def _resolve(hosts: list[str], fd: int) -> None:
    import socket

    pause_s = _FIRST_PAUSE_S
    while hosts:
        left = []
        for host in hosts:
            try:
                found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                left.append(host)
                continue
            addresses = dict.fromkeys(str(entry[4][0]) for entry in found)
            os.write(fd, os.fsencode(" ".join([host, *addresses]) + "\n"))
        hosts = left
        if hosts:
            time.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
