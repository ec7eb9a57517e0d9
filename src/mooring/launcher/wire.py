"""What the rank agent and its caller say to each other, in frames.

The agent sends a nonce; the caller answers with one of its own and the proof that it holds the
job's token; the agent shows the same. Only then does the command travel, with a proof of its own.
Until then a frame has some bytes and no more.
"""

from __future__ import annotations

import struct

from . import proof

NONCE = b"n"
#: Who holds the token: first the caller with its nonce, then the agent.
HELLO = b"h"
SHOWN = b"p"
REQUEST = b"r"
SIGNAL = b"s"
OUT = b"o"
ERR = b"e"
EXIT = b"x"

# What ssh returns when the connection, not the command, failed.
FAILED = 255
LONGEST_HELLO_BYTES = proof.NONCE_BYTES + proof.PROOF_BYTES
LONGEST_REQUEST_BYTES = 4 << 20
LONGEST_FRAME_BYTES = 8 << 20
_HEAD = struct.Struct("!cI")


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


def close_hello(token: str, agents: bytes, callers: bytes) -> bytes:
    """The caller's nonce, and the proof over both."""
    return callers + proof.prove(token, proof.CALLER, agents, callers)


def open_hello(token: str, agents: bytes, payload: bytes) -> bytes | None:
    """The caller's nonce, if it holds the token."""
    callers, shown = payload[: proof.NONCE_BYTES], payload[proof.NONCE_BYTES :]
    return callers if proof.holds(token, shown, proof.CALLER, agents, callers) else None


def close_request(token: str, nonces: bytes, body: bytes) -> bytes:
    return proof.prove(token, proof.COMMAND, nonces, body) + body


def open_request(token: str, nonces: bytes, payload: bytes) -> bytes | None:
    """The request's body if its sender holds the token."""
    shown, body = payload[: proof.PROOF_BYTES], payload[proof.PROOF_BYTES :]
    return body if proof.holds(token, shown, proof.COMMAND, nonces, body) else None
