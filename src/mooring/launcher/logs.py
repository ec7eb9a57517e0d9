"""The log file: every line of every local process with its time, stream and local rank.

Programs write what they like: bytes that are no text, lines without end, progress bars that use
carriage returns, more than the disk holds. None of it may stop or slow the training.
"""

from __future__ import annotations

import time

from .append import AppendFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

LONGEST_LINE_BYTES = 64 * 1024


class LogFile:
    """Appends lines. Lines that do not fit on the disk are counted and owned up to later."""

    def __init__(self, path: str) -> None:
        self._file = AppendFile(path)
        self._second = -1
        self._prefix = b""
        self._why = ""
        self._unsaid = 0
        #: All lines that are missing, wholly or in part.
        self.lost = 0

    def write(self, stream: str, rank: int, lines: list[bytes]) -> None:
        if not lines:
            return
        head = b"%s %s %d " % (self._stamp(), stream.encode("ascii"), rank)
        self._append(rank, head + (b"\n" + head).join(lines) + b"\n")

    def own_up(self) -> None:
        """Says now, if there is room for it, what was lost since it was last said."""
        if self._unsaid:
            self._append(0, b"")

    def _append(self, rank: int, data: bytes) -> None:
        note = b""
        if self._unsaid:
            what = "1 line" if self._unsaid == 1 else "%d lines" % self._unsaid
            text = "err %d [mooring] %s lost: %s\n" % (rank, what, self._why)
            note = self._stamp() + b" " + text.encode("utf-8")
        done, why = self._file.append(note + data)
        if done >= len(note):
            self._unsaid = 0
        if why:
            lost = data[max(0, done - len(note)) :].count(b"\n")
            self._unsaid += lost
            self.lost += lost
            self._why = why

    def note(self, rank: int, text: str) -> None:
        """A line of the launcher's own, among the errors of the local process that it is about."""
        self.write("err", rank, [("[mooring] " + text).encode("utf-8", "replace")])

    def _stamp(self) -> bytes:
        second, micros = divmod(int(time.time() * 1e6), 1000000)
        if second != self._second:
            self._second = second
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode("ascii")
        return b"%s.%06dZ" % (self._prefix, micros)


class LineCutter:
    """Cuts one stream into lines, and hands over those that each piece of data completes."""

    def __init__(self, deliver: Callable[[list[bytes]], None]) -> None:
        self._deliver = deliver
        self._rest = b""

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        if b"\r" in data:
            # A carriage return ends a line as well (progress bars); the two of "\r\n" may
            # arrive apart, so one at the very end waits.
            held = data.endswith(b"\r")
            data = data[: len(data) - held].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            data += b"\r" if held else b""
        *lines, rest = data.split(b"\n")
        while len(rest) > LONGEST_LINE_BYTES:
            piece, rest = _cut(rest)
            lines.append(piece)
        self._rest = rest
        if lines:
            self._deliver(_clean(lines))

    def close(self) -> None:
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        if rest:
            self._deliver(_clean([rest]))


def _clean(lines: list[bytes]) -> list[bytes]:
    """Lines of at most the longest length, each valid UTF-8."""
    clean = []
    for line in lines:
        while len(line) > LONGEST_LINE_BYTES:
            piece, line = _cut(line)
            clean.append(_text(piece))
        clean.append(_text(line))
    return clean


def _cut(line: bytes) -> tuple[bytes, bytes]:
    """Cuts at the longest length, or a little before it where that is inside a character."""
    end = LONGEST_LINE_BYTES
    while end > LONGEST_LINE_BYTES - 4 and line[end] & 0xC0 == 0x80:
        end -= 1
    return line[:end], line[end:]


def _text(line: bytes) -> bytes:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").encode("utf-8")
    return line
