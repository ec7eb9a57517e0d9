"""Protobuf written by hand, so that what reads it is checked by something else than itself."""

from __future__ import annotations

from typing import TypeAlias

Value: TypeAlias = "int | str | bytes"


def message(*fields: tuple[int, Value]) -> bytes:
    """Fields by number: a number, or whatever has a length (a text, bytes, another message)."""
    return b"".join(_field(number, value) for number, value in fields)


def entry(number: int, key: str, value: str | bytes) -> tuple[int, bytes]:
    """One pair of a mapping."""
    return number, message((1, key), (2, value))


def envelope(kind: str, content: bytes) -> bytes:
    """An object as an API server sends it."""
    about = message((1, "v1"), (2, kind))
    return b"k8s\0" + message((1, about), (2, content), (3, ""), (4, ""))


def event(change: str, kind: str, content: bytes) -> bytes:
    """A line of a watch, with its length before it."""
    framed = message((1, change), (2, message((1, envelope(kind, content)))))
    return len(framed).to_bytes(4, "big") + framed


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _varint(value: int) -> bytes:
    # A negative number is written as the one that is 2^64 larger.
    value %= 1 << 64
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])
