"""Where the service listens: a Unix socket for its owner alone, and on demand TCP on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from mooring.backends.local.queue.socket_path import short_path
from mooring.model.errors import BadInput, RunFailed

#: Whoever may not come in can still connect: no more than this, so that files can be opened.
MOST_CONNECTIONS = 200
_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<v4>[0-9A-Za-z.]+)):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class TcpAddress:
    """An address that only this machine reaches."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> TcpAddress:
        """Raises BadInput."""
        match = _ADDRESS.fullmatch(text)
        if match is not None:
            host = match["v6"] or match["v4"].lower()
            host = "127.0.0.1" if host == "localhost" else host
            with contextlib.suppress(ValueError):
                loopback = ipaddress.ip_address(host).is_loopback
                if loopback and int(match["port"]) < 1 << 16:
                    return cls(str(ipaddress.ip_address(host)), int(match["port"]))
        accepted = "a loopback address and a port, such as 127.0.0.1:8642"
        raise BadInput.at("moor serve", "--listen", repr(text), accepted)

    @property
    def hosts(self) -> frozenset[str]:
        """What requests may call it."""
        names = {self._written, "localhost"}
        with_port = {f"{name}:{self.port}" for name in names}
        return frozenset(with_port | names if self.port == 80 else with_port)

    @property
    def url(self) -> str:
        return f"http://{self._written}:{self.port}"

    @property
    def _written(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@contextmanager
def tcp_listener(address: TcpAddress) -> Iterator[tuple[socket.socket, TcpAddress]]:
    """A listening socket, and where it really is: port 0 asks for any. Raises RunFailed."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, address.port))
            listener.listen()
        except OSError as error:
            text = f"cannot listen on {address.url}: {error.strerror}"
            raise RunFailed(text) from error
        yield listener, TcpAddress(address.host, listener.getsockname()[1])


class _Counted(asyncio.Protocol):
    """One connection, handed on to the application, or closed if there are too many."""

    def __init__(self, serving: web.Server, others: set[_Counted]) -> None:
        self._serving, self._others = serving, others
        self._inner: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if len(self._others) >= MOST_CONNECTIONS:
            transport.close()
            return
        self._others.add(self)
        self._inner = self._serving()
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.discard(self)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()


@asynccontextmanager
async def served_by(runner: web.AppRunner, listener: socket.socket) -> AsyncIterator[None]:
    """Connections to the listener go to the runner's application, so many at once."""
    serving, others = runner.server, set[_Counted]()
    assert serving is not None
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Counted(serving, others), sock=listener)
    try:
        yield
    finally:
        server.close()


@contextmanager
def unix_listener(path: Path) -> Iterator[socket.socket]:
    """A Unix socket for its owner alone. One that a killed service left is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    before = os.umask(0o177)
    try:
        with short_path(path) as address:
            listener.bind(address)
    finally:
        os.umask(before)
    try:
        yield listener
    finally:
        listener.close()
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
