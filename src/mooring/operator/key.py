"""The operator's key, in a Secret of its own namespace: made once, the same for all replicas."""

from __future__ import annotations

import asyncio
import logging

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Object
from mooring.backends.kubernetes.api.errors import AlreadyExists, KubeError, NotFound
from mooring.backends.kubernetes.api.resources import SECRET
from mooring.backends.kubernetes.objects.token import Key, key_manifest, new_key, parse_key
from mooring.install.names import KEY_SECRET

log = logging.getLogger(__name__)

_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 10.0


async def load_key(client: Client, namespace: str) -> Key:
    """Waits for a server that does not answer, or does not allow it yet. Raises KubeError for a
    Secret that holds no key."""
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            found = await _found_or_made(client, namespace)
            break
        except KubeError as error:
            log.warning("the operator's key: %s", error)
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
    key = parse_key(found)
    if key is None:
        raise KubeError(
            f"secret {namespace}/{KEY_SECRET}: no key of 32 bytes in it; delete it, and a new one "
            "is made (running jobs then have no figures)"
        )
    return key


async def _found_or_made(client: Client, namespace: str) -> Object:
    try:
        return await client.get(SECRET, KEY_SECRET, namespace)
    except NotFound:
        try:
            return await client.create(SECRET, key_manifest(new_key(), KEY_SECRET, namespace))
        except AlreadyExists:
            # Another replica was faster.
            return await client.get(SECRET, KEY_SECRET, namespace)
