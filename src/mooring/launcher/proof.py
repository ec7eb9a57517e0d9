"""Who holds the job's token: shown by keyed hashes over nonces, so that it never travels.

Each side gives a nonce of its own, so nothing that was recorded is of use again; each proof names
what it is for, so that none can be handed back in place of another. What is said afterwards on the
same connection is neither encrypted nor signed.

`mooring.backends.kubernetes.objects.token` speaks the same from outside the pods.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
import time

#: What a proof is for.
HOST = b"meeting host"
GUEST = b"meeting guest"
ASKER = b"asker"
ANSWER = b"answer"
AGENT = b"rank agent"
CALLER = b"rank caller"
COMMAND = b"rank command"

NONCE_BYTES = 32
PROOF_BYTES = hashlib.sha256().digest_size
#: How far the clocks of two nodes may be apart; a question that was overheard is as long of use, to
#: somebody who has heard the answer as well.
_CLOCKS_APART_S = 300.0


def new_nonce() -> bytes:
    return os.urandom(NONCE_BYTES)


def prove(token: str, purpose: bytes, *parts: bytes) -> bytes:
    """The proof that its maker holds the token, for these parts and no others."""
    made = hmac.new(token.encode("utf-8"), digestmod=hashlib.sha256)
    for part in (purpose, *parts):
        made.update(len(part).to_bytes(8, "big") + part)
    return made.digest()


def holds(token: str, proof: bytes, purpose: bytes, *parts: bytes) -> bool:
    """Was the proof made with this token? An empty token proves nothing."""
    return bool(token) and hmac.compare_digest(proof, prove(token, purpose, *parts))


def from_hex(text: object, length: int) -> bytes:
    """Raises ValueError for what is not exactly so many bytes."""
    if not isinstance(text, str) or len(text) != 2 * length:
        raise ValueError("not %d bytes in hexadecimal" % length)
    return binascii.unhexlify(text.encode("ascii"))


def asked_by_holder(token: str, path: str, query: str) -> bytes:
    """The asker's nonce, if whoever asks for the path with this query holds the token. Raises
    ValueError otherwise."""
    fields = dict(part.partition("=")[::2] for part in query.split("&"))
    at, nonce = fields.get("at", ""), from_hex(fields.get("nonce"), NONCE_BYTES)
    proof = from_hex(fields.get("proof"), PROOF_BYTES)
    if not holds(token, proof, ASKER, path.encode(), at.encode(), nonce):
        raise ValueError("the token is wrong")
    if abs(float(at) - time.time()) > _CLOCKS_APART_S:
        raise ValueError("an old question, or clocks that are far apart")
    return nonce
