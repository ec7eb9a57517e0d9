"""Serves the admission webhook over TLS and keeps its certificate fresh.

Every replica serves, whoever leads: the API server may call any of them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from datetime import UTC, datetime, timedelta

from aiohttp import web

from mooring.operator.certificates import (
    LIFETIME,
    Patch,
    Read,
    make_certificate,
    publish,
    server_context,
    use,
)

log = logging.getLogger(__name__)

#: How often the registration is looked at: somebody may have applied it anew or emptied it.
_LOOK_EVERY_S = 60.0
#: An API server hears of a new authority by its watch; until then the old certificate is shown.
_HEARD_AFTER_S = 10.0


def open_port(port: int) -> socket.socket:
    """Listens on every address, of both families where the machine has both."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


async def serve_webhook(
    application: web.Application,
    *,
    listener: socket.socket,
    host_name: str,
    replica: str,
    read: Read,
    patch: Patch,
    lifetime: timedelta = LIFETIME,
    look_every_s: float = _LOOK_EVERY_S,
    heard_after_s: float = _HEARD_AFTER_S,
) -> None:
    """Until cancelled. `read` and `patch` are about the webhook's registration; what they raise is
    told and tried again: jobs are checked by the operator too, so nothing depends on it.
    """
    current = make_certificate(host_name, replica, _now(), lifetime)
    context = server_context(current)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, ssl_context=context).start()
        while True:
            await _try_publish(current.ca_pem, read, patch)
            if _now() >= current.renew_at:
                following = make_certificate(host_name, replica, _now(), lifetime)
                if await _try_publish(following.ca_pem, read, patch):
                    await asyncio.sleep(heard_after_s)
                    use(context, following)
                    current = following
                    log.info("the webhook has a new certificate until %s", current.not_after)
            await asyncio.sleep(look_every_s)
    finally:
        await runner.cleanup()


async def _try_publish(ca_pem: bytes, read: Read, patch: Patch) -> bool:
    try:
        done = await publish(ca_pem, _now(), read, patch)
    except Exception as error:
        log.warning("the webhook's certificate could not be entered: %s", error)
        return False
    if not done:
        log.warning("the webhook's registration keeps changing; will try again")
    return done


def _now() -> datetime:
    return datetime.now(UTC)
