"""A job's token: who holds it belongs to the job, or may ask its first member about it.

It lies in a Secret of the job, for its pods. The operator reads no Secret of anybody's namespace:
it works each token out from one key of its own. `mooring.launcher.proof` speaks the same in pods,
which import nothing of this package.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from mooring.backends.kubernetes.api.document import Json, Object, text
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pod_manifest import Owner

_KEY_BYTES = 32
_PURPOSE = b"mooring job token"
_ASKER, _ANSWER = b"asker", b"answer"
#: The header in which an answer's proof comes.
PROOF_HEADER = "Mooring-Proof"


@dataclass(frozen=True, repr=False)
class Key:
    """What the operator makes tokens with."""

    secret: bytes

    def token_of(self, job_uid: str) -> str:
        return hmac.new(self.secret, _PURPOSE + job_uid.encode(), hashlib.sha256).hexdigest()


def new_key() -> Key:
    return Key(secrets.token_bytes(_KEY_BYTES))


def key_manifest(key: Key, name: str, namespace: str) -> dict[str, Json]:
    labels: dict[str, Json] = {names.MANAGED_BY: names.MANAGER}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": {"key": base64.b64encode(key.secret).decode("ascii")},
    }


def parse_key(secret: Object) -> Key | None:
    """None for a Secret without a key of that length: whoever made it did not mean this."""
    raw = _decoded(secret, "key")
    return Key(raw) if len(raw) == _KEY_BYTES else None


def token_manifest(owner: Owner, token: str) -> dict[str, Json]:
    """The Secret that the job's pods get their token from."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": names.token_secret_name(owner.name, owner.uid),
            "namespace": owner.namespace,
            "labels": {names.MANAGED_BY: names.MANAGER, names.JOB: owner.name},
            "ownerReferences": [owner.reference()],
        },
        "data": {"token": base64.b64encode(token.encode()).decode("ascii")},
    }


def parse_token(secret: Object) -> str:
    return _decoded(secret, "token").decode(errors="replace")


def _decoded(secret: Object, key: str) -> bytes:
    try:
        return base64.b64decode(text(secret, "data", key), validate=True)
    except (binascii.Error, ValueError):
        return b""


@dataclass(frozen=True)
class Question:
    """A path to ask the first member for, and how to know that it was the one who answered."""

    path: str
    _token: str
    _nonce: bytes

    def answered_by_holder(self, body: bytes, proof: str) -> bool:
        """An empty token, as of a Secret that somebody emptied, proves nothing."""
        expected = prove(self._token, _ANSWER, self._nonce, body).hex()
        same = hmac.compare_digest(expected.encode(), proof.encode(errors="replace"))
        return bool(self._token) and same


def question(token: str, path: str, now_s: float) -> Question:
    nonce, at = secrets.token_bytes(32), f"{now_s:.0f}"
    proof = prove(token, _ASKER, path.encode(), at.encode(), nonce)
    return Question(f"{path}?at={at}&nonce={nonce.hex()}&proof={proof.hex()}", token, nonce)


def prove(token: str, purpose: bytes, *parts: bytes) -> bytes:
    made = hmac.new(token.encode(), digestmod=hashlib.sha256)
    for part in (purpose, *parts):
        made.update(len(part).to_bytes(8, "big") + part)
    return made.digest()
