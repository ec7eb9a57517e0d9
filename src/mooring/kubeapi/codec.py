"""JSON as it travels: what the operator spends most of its time on while a cluster is busy.

orjson reads a pod in less than half the time that Python's own takes, and writes one in a tenth.
"""

from __future__ import annotations

import json

import orjson

from mooring.kubeapi.document import Json


def read(raw: bytes) -> Json:
    """Raises ValueError for what is no JSON."""
    value: Json = orjson.loads(raw)
    return value


def write(value: Json) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # Half a surrogate, a number of over 64 bits, a mapping that is no dict: rare, and allowed.
        return json.dumps(value, separators=(",", ":"), default=dict).encode()
