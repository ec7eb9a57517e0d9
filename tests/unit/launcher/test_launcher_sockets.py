"""Bytes of real sockets, as the kernel counts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.launcher import sockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="netlink")

Pair = tuple[socket.socket, socket.socket, int]


@pytest.fixture(params=["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """(the side that connected, the side that listened, the listening port)."""
    address = request.param
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        mapped = address.startswith("::ffff:")
        server = socket.create_server(
            ("::" if mapped else address, 0), family=family, dualstack_ipv6=mapped
        )
    except OSError as error:
        pytest.skip(f"{address}: {error}")
    with server:
        port = server.getsockname()[1]
        with socket.create_connection((address, port)) as client:
            accepted, _ = server.accept()
            with accepted:
                yield client, accepted, port


def pass_on(sender: socket.socket, receiver: socket.socket, count: int) -> None:
    sender.sendall(b"x" * count)
    while count:
        count -= len(receiver.recv(count))


def inode(sock: socket.socket) -> int:
    return int(str(Path(f"/proc/self/fd/{sock.fileno()}").readlink())[8:-1])


def test_a_socket_tells_what_went_through_it(pair: Pair) -> None:
    client, accepted, port = pair
    pass_on(client, accepted, 70_000)
    pass_on(accepted, client, 5)
    [found] = sockets.dump({inode(client)})
    # The kernel counts the opening SYN as a byte.
    assert found.sent in (70_000, 70_001)
    assert found.received == 5
    assert found.port == port
    assert found.address == sockets.pack_address(accepted.getsockname()[0])


def test_totals_by_peer_outlive_the_sockets(pair: Pair) -> None:
    client, accepted, port = pair
    host = accepted.getsockname()[0]
    peers = [("ps-0", host, [port]), ("ps-1", host, [port + 1])]
    traffic = sockets.PeerTraffic(peers)
    pass_on(client, accepted, 1000)
    # Both ends are this process's: what the client sent to ps-0, the other end received.
    first = traffic.measure([os.getpid()])
    assert first["peers"]["ps-0"][0] in (1000, 1001)
    assert first["peers"][sockets.OTHER][1] >= 1000
    client.close()
    accepted.close()
    after = traffic.measure([os.getpid()])
    assert after["peers"]["ps-0"] == first["peers"]["ps-0"]
    assert after["tx_bytes"] >= first["tx_bytes"]


@contextmanager
def owner(*socks: socket.socket) -> Iterator[int]:
    """A process that holds these sockets and no other: the tests' own may have more of them."""
    with subprocess.Popen(
        ["cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[sock.fileno() for sock in socks],
    ) as process:
        yield process.pid


def test_an_address_that_one_peer_has_alone_is_that_peer(pair: Pair) -> None:
    client, accepted, port = pair
    host = accepted.getsockname()[0]
    traffic = sockets.PeerTraffic([("ps-0", host, [port]), ("ps-1", "192.0.2.1", [port])])
    pass_on(client, accepted, 10)
    with owner(client, accepted) as pid:
        assert set(traffic.measure([pid])["peers"]) == {"ps-0"}


def test_sockets_of_others_are_not_counted(pair: Pair) -> None:
    assert sockets.dump({1}) == []
    assert sockets.PeerTraffic([]).measure([]) == {"tx_bytes": 0, "rx_bytes": 0, "peers": {}}
