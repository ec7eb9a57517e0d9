"""Cutting an answer that comes bit by bit into messages: by the line, or by length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

#: A pod of the largest size the server stores, and a message of a watch that holds it twice.
LONGEST = 8 * 1024 * 1024
_LENGTH = 4


class Cutter(Protocol):
    def whole(self, chunk: bytes) -> Iterator[bytes]:
        """The messages that end in this chunk. Raises ValueError for one that is too long."""
        ...

    def last(self) -> bytes:
        """What is left at the end of the answer. Raises ValueError if it is half a message."""
        ...


class LineStream:
    """Without those that are empty."""

    def __init__(self) -> None:
        self._rest = b""

    def whole(self, chunk: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST:
            raise ValueError(f"a line of over {LONGEST} bytes")
        yield from filter(None, lines)

    def last(self) -> bytes:
        return self._rest


class Frames:
    """Each after its length in four bytes, the highest first."""

    def __init__(self) -> None:
        self._rest = b""

    def whole(self, chunk: bytes) -> Iterator[bytes]:
        held = self._rest + chunk
        at = 0
        while len(held) >= at + _LENGTH:
            length = int.from_bytes(held[at : at + _LENGTH], "big")
            if length > LONGEST:
                raise ValueError(f"a message of {length} bytes")
            end = at + _LENGTH + length
            if end > len(held):
                break
            yield held[at + _LENGTH : end]
            at = end
        self._rest = held[at:]

    def last(self) -> bytes:
        if self._rest:
            raise ValueError("half a message at the end")
        return b""
