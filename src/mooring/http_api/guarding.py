"""Who may come in over TCP. Any program on the machine can connect, and any page in a browser can
try to: each request must name us (against names that are made to point here), must not come from
another page, and must show the token.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Middleware

from mooring.http_api.answering import Handler

_SCHEME = b"Bearer "


@dataclass(frozen=True)
class Guard:
    """`hosts`: what a request may call us, with the port."""

    hosts: frozenset[str]
    token: bytes

    def check(self, request: web.Request) -> None:
        """Raises HTTPForbidden or HTTPUnauthorized."""
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            known = ", ".join(sorted(self.hosts))
            raise web.HTTPForbidden(text=f"Host: found {hosts!r}; accepted: {known}")
        own = {f"http://{host}" for host in self.hosts}
        for origin in request.headers.getall("Origin", []):
            if origin.lower() not in own:
                raise web.HTTPForbidden(text=f"Origin: found {origin!r}; accepted: none, or ours")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise web.HTTPForbidden(text="Sec-Fetch-Site: found another page's; accepted: ours")
        if not self._shown(request.headers.getall("Authorization", [])):
            raise web.HTTPUnauthorized(
                text="Authorization: accepted: Bearer and the token of the service's token file",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _shown(self, said: list[str]) -> bool:
        given = said[0].encode(errors="surrogateescape") if len(said) == 1 else b""
        right = hmac.compare_digest(given[len(_SCHEME) :], self.token)
        return right and given[: len(_SCHEME)].lower() == _SCHEME.lower()

    def middleware(self) -> Middleware:
        """Before everything else that would be done for a request."""

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            self.check(request)
            return await handler(request)

        return guarded
