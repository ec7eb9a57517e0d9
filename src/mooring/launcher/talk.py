"""One connection of a meeting: lines in as they come, bytes out as the other side takes them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Callable

    from .loop import Loop

#: Of those who have shown that they belong to the job.
LONGEST_LINE = 256 * 1024
#: Of strangers: who it is, or the head of a question over HTTP.
LONGEST_GREETING = 8 * 1024


class Talk:
    """`heard` gets what arrives; `gone` is called once, when the connection is over.

    Whatever the other side says, no exception of reading it goes beyond this connection.
    """

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        heard: Callable[[bytes], None],
        gone: Callable[[], None],
    ) -> None:
        self._loop, self._connection = loop, connection
        self._heard, self._gone = heard, gone
        self._unsent = b""
        self._last = False
        loop.watch(connection.fileno(), self._readable)

    @property
    def behind(self) -> bool:
        """Is something on its way that the other side has not taken?"""
        return bool(self._unsent)

    @property
    def closed(self) -> bool:
        return self._connection.fileno() < 0

    def send(self, data: bytes, last: bool = False) -> None:
        """With `last`, the connection is closed when all of it has been sent."""
        self._unsent += data
        self._last = self._last or last
        self._flush()

    def close(self) -> None:
        if self._connection.fileno() >= 0:
            self._loop.watch(self._connection.fileno(), None)
            self._connection.close()
            self._unsent = b""
            self._gone()

    def _readable(self) -> None:
        try:
            data = self._connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            self._heard(data)
        except Exception:
            self.close()

    def _flush(self) -> None:
        if self._connection.fileno() < 0:
            return
        try:
            sent = self._connection.send(self._unsent)
            self._unsent = self._unsent[sent:]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self._last and not self._unsent:
            self.close()
            return
        writing = self._flush if self._unsent else None
        self._loop.watch(self._connection.fileno(), self._readable, writing)


class LineReader:
    """Puts lines together. Raises ValueError for one that is longer than allowed."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, longest: int) -> list[bytes]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = b""
        if any(len(line) > longest for line in lines) or len(rest) > longest:
            raise ValueError("a line that is too long")
        self._rest = rest
        return lines
