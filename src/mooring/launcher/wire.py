"""What the rank agent and its caller say to each other: frames, and the proof of the token.

The agent sends a nonce, the caller answers with its request and a keyed hash over both: the token
itself never travels, and a recorded request is of no use.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct

NONCE = b"n"
REQUEST = b"r"
SIGNAL = b"s"
OUT = b"o"
ERR = b"e"
EXIT = b"x"

# What ssh returns when the connection, not the command, failed.
FAILED = 255
LONGEST_REQUEST_BYTES = 4 << 20
LONGEST_FRAME_BYTES = 8 << 20
_HEAD = struct.Struct("!cI")
_MAC_BYTES = hashlib.sha256().digest_size


class Garbled(Exception):
    """The other side does not speak this protocol."""


def frame(kind: bytes, payload: bytes) -> bytes:
    return _HEAD.pack(kind, len(payload)) + payload


class Inbox:
    """Puts frames together from whatever pieces arrive."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes, longest: int = LONGEST_FRAME_BYTES) -> list[tuple[bytes, bytes]]:
        self._data += data
        frames = []
        while len(self._data) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._data)
            if length > longest:
                raise Garbled
            end = _HEAD.size + length
            if len(self._data) < end:
                break
            frames.append((kind, bytes(self._data[_HEAD.size : end])))
            del self._data[:end]
        return frames


def new_nonce() -> bytes:
    return os.urandom(32)


def close_request(token: str, nonce: bytes, body: bytes) -> bytes:
    return _mac(token, nonce, body) + body


def open_request(token: str, nonce: bytes, payload: bytes) -> bytes | None:
    """The request's body if its sender holds the token."""
    mac, body = payload[:_MAC_BYTES], payload[_MAC_BYTES:]
    return body if hmac.compare_digest(mac, _mac(token, nonce, body)) else None


def _mac(token: str, nonce: bytes, body: bytes) -> bytes:
    return hmac.new(token.encode("utf-8"), nonce + body, hashlib.sha256).digest()
