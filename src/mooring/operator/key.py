"""The operator's key, in a Secret of its own namespace: made once, the same for all replicas."""

from __future__ import annotations

from mooring.bodies.kubernetes.token import Key, key_manifest, new_key, parse_key
from mooring.install.names import KEY_SECRET
from mooring.kubeapi.client import Client
from mooring.kubeapi.errors import AlreadyExists, KubeError, NotFound
from mooring.kubeapi.resources import SECRET


async def load_key(client: Client, namespace: str) -> Key:
    """Raises KubeError if it can be neither read nor made."""
    try:
        found = await client.get(SECRET, KEY_SECRET, namespace)
    except NotFound:
        try:
            found = await client.create(SECRET, key_manifest(new_key(), KEY_SECRET, namespace))
        except AlreadyExists:
            # Another replica was faster.
            found = await client.get(SECRET, KEY_SECRET, namespace)
    key = parse_key(found)
    if key is None:
        raise KubeError(
            f"secret {namespace}/{KEY_SECRET}: no key of 32 bytes in it; delete it, and a new one "
            "is made (running jobs then have no figures)"
        )
    return key
