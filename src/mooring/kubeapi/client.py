"""Calls to the API server: objects in and out as JSON, errors by kind, nothing repeated blindly.

Only a call that the server refused to look at (429, or 503 with Retry-After) is made again here.
Whether to repeat one whose fate is unknown is up to the caller, who can look first.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from mooring.kubeapi.credentials import Credentials, tls_context
from mooring.kubeapi.document import Json, Object, items, mapping, text
from mooring.kubeapi.errors import ApiError, NotFound, Overloaded, Unreachable, api_error
from mooring.kubeapi.kubeconfig import Access
from mooring.kubeapi.resources import POD, Kind
from mooring.version import VERSION

FIELD_MANAGER = "mooring"
#: A page as Python objects takes ten times the room of its text: few at a time keep memory low.
_PAGE = 100
_CONNECTIONS = 64
_CALL_TIMEOUT_S = 60.0
_TRIES = 4
_LONGEST_RETRY_S = 10.0
#: What was made, without its spec and status. A server that does not know the form sends it whole.
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
#: A pod of the largest size the server stores, and a line of a watch that holds it twice.
_LONGEST_LINE = 8 * 1024 * 1024


@dataclass(frozen=True)
class Call:
    """One call that was answered, for metrics. `status` 0: it was not."""

    method: str
    resource: str
    status: int
    duration_s: float


@dataclass(frozen=True)
class Page:
    """Some objects of a list; `version` is that of the list as a whole."""

    objects: tuple[Object, ...]
    version: str


@dataclass(frozen=True)
class Answer:
    """What the server answered, not read yet."""

    raw: bytes
    to: str

    def read(self) -> Object:
        found = _decode(self.raw)
        if not isinstance(found, dict):
            raise Unreachable(f"{self.to}: the answer is not a JSON object")
        return found


@dataclass(frozen=True)
class _Request:
    """One call to be made, and under which name metrics count it."""

    method: str
    path: str
    resource: str
    params: Mapping[str, str] | None = None
    body: Json = None
    content_type: str = "application/json"
    accept: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Change:
    """A line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    kind: str
    object: Object


class Client:
    """A connection to one API server; used as an async context manager."""

    def __init__(
        self,
        access: Access,
        on_call: Callable[[Call], None] | None = None,
        connections: int = _CONNECTIONS,
    ) -> None:
        self.access = access
        self._connections = connections
        self._on_call = on_call or (lambda call: None)
        self._credentials = Credentials(access)
        self._proxy = access.proxy or environment_proxy(access.server)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=tls_context(self.access))
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": f"mooring/{VERSION}"},
            timeout=aiohttp.ClientTimeout(total=_CALL_TIMEOUT_S, sock_connect=10.0),
            read_bufsize=2**18,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        return await self.call("GET", kind.path(namespace, name), kind.plural)

    async def pages(
        self, kind: Kind, namespace: str | None = None, labels: str = ""
    ) -> AsyncIterator[Page]:
        """All objects, some at a time; raises Expired if the server forgets where we were."""
        params = {"limit": str(_PAGE)}
        if labels:
            params["labelSelector"] = labels
        while True:
            answer = await self.call("GET", kind.path(namespace), kind.plural, params=params)
            yield Page(tuple(items(answer, "items")), text(answer, "metadata", "resourceVersion"))
            more = text(answer, "metadata", "continue")
            if not more:
                return
            params["continue"] = more

    async def list(
        self, kind: Kind, namespace: str | None = None, labels: str = ""
    ) -> tuple[Object, ...]:
        found: list[Object] = []
        async for page in self.pages(kind, namespace, labels):
            found += page.objects
        return tuple(found)

    async def create(self, kind: Kind, manifest: Object) -> Object:
        path = kind.path(text(manifest, "metadata", "namespace"))
        params = {"fieldManager": FIELD_MANAGER}
        return await self.call("POST", path, kind.plural, params=params, body=manifest)

    async def create_for_metadata(self, kind: Kind, manifest: Object) -> Answer:
        """For many objects that somebody watches: the answer holds nothing but their metadata, and
        most of these answers need never be read."""
        path = kind.path(text(manifest, "metadata", "namespace"))
        params = {"fieldManager": FIELD_MANAGER}
        return await self._answer(
            _Request("POST", path, kind.plural, params, manifest, accept=_METADATA)
        )

    async def apply(self, kind: Kind, manifest: Object, *, dry_run: bool = False) -> Object:
        """Server-side apply: made if it is not there, brought to what we say if it is."""
        name, namespace = (
            text(manifest, "metadata", "name"),
            text(manifest, "metadata", "namespace"),
        )
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        if dry_run:
            params["dryRun"] = "All"
        return await self.call(
            "PATCH",
            kind.path(namespace, name),
            kind.plural,
            params=params,
            body=manifest,
            content_type="application/apply-patch+yaml",
        )

    async def replace(self, kind: Kind, manifest: Object, subresource: str = "") -> Object:
        """PUT: refused with Conflict if the object is no longer the one that was read."""
        name, namespace = (
            text(manifest, "metadata", "name"),
            text(manifest, "metadata", "namespace"),
        )
        path = kind.path(namespace, name, subresource)
        params = {"fieldManager": FIELD_MANAGER}
        return await self.call("PUT", path, kind.plural, params=params, body=manifest)

    async def merge(
        self, kind: Kind, name: str, namespace: str | None, patch: Object, subresource: str = ""
    ) -> Object:
        """A JSON merge patch; with metadata.resourceVersion in it, as strict as `replace`."""
        return await self.call(
            "PATCH",
            kind.path(namespace, name, subresource),
            kind.plural,
            params={"fieldManager": FIELD_MANAGER},
            body=patch,
            content_type="application/merge-patch+json",
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        grace_s: int | None = None,
    ) -> bool:
        """Ask for the object's end; False if it was not there. With `uid`, only that very one."""
        options: dict[str, Json] = {"propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            await self.call("DELETE", kind.path(namespace, name), kind.plural, body=options)
        except NotFound:
            return False
        return True

    async def proxy(self, pod: str, namespace: str, port: int, path: str) -> Json:
        """What a pod answers over HTTP, reached through the API server."""
        route = POD.path(namespace, f"{pod}:{port}", "proxy") + path
        return await self.call("GET", route, "pods/proxy")

    async def pod_log(
        self, pod: str, namespace: str, params: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """The lines of a container's log; with `follow`, until it ends, however long it is silent.

        Empty lines are left out unless the params ask for timestamps.
        """
        async for line in self.lines(POD.path(namespace, pod, "log"), "pods/log", params, None):
            yield line

    async def watch(
        self,
        kind: Kind,
        namespace: str | None,
        version: str,
        labels: str = "",
        timeout_s: int = 300,
    ) -> AsyncIterator[Change]:
        """Changes after `version`, until the server ends the watch."""
        params = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        if labels:
            params["labelSelector"] = labels
        async for line in self.lines(kind.path(namespace), kind.plural, params, timeout_s + 30):
            try:
                change = json.loads(line)
            except ValueError as error:
                raise Unreachable(f"watch of {kind.plural}: a broken line") from error
            found = Change(text(change, "type"), mapping(change, "object"))
            if found.kind == "ERROR":
                raise api_error(500, found.object, f"watch of {kind.plural}")
            yield found

    async def lines(
        self, path: str, resource: str, params: Mapping[str, str], timeout_s: float | None
    ) -> AsyncIterator[bytes]:
        """The lines of an answer that comes bit by bit: a watch, or a log."""
        session = self._open()
        # A server that says nothing for as long as it may be silent is gone.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=timeout_s)
        headers = await self._headers(refused=False)
        headers["Accept"] = "application/json"
        started_s = time.monotonic()
        status = 0
        try:
            async with session.get(
                self.access.server + path,
                params=params,
                headers=headers,
                timeout=timeout,
                proxy=self._proxy,
                server_hostname=self.access.tls_server_name or None,
            ) as response:
                status = response.status
                self._on_call(Call("WATCH", resource, status, time.monotonic() - started_s))
                if status >= 400:
                    answer = _decode(await response.read())
                    raise api_error(status, answer, f"GET {path}", _retry_after_s(response))
                rest = b""
                async for chunk in response.content.iter_any():
                    *whole, rest = (rest + chunk).split(b"\n")
                    if len(rest) > _LONGEST_LINE:
                        raise Unreachable(f"GET {path}: a line of over {_LONGEST_LINE} bytes")
                    for line in whole:
                        if line:
                            yield line
                if rest:
                    yield rest
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if not status:
                self._on_call(Call("WATCH", resource, 0, time.monotonic() - started_s))
            raise Unreachable(f"GET {path}: {_said(error)}") from error

    async def call(
        self,
        method: str,
        path: str,
        resource: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json = None,
        content_type: str = "application/json",
    ) -> Object:
        """One call, made again only where the server says that it did nothing."""
        answer = await self._answer(_Request(method, path, resource, params, body, content_type))
        return answer.read()

    async def _answer(self, request: _Request) -> Answer:
        refused = False
        for left in range(_TRIES - 1, -1, -1):
            try:
                return await self._once(request, refused)
            except Overloaded as error:
                if not left:
                    raise
                await asyncio.sleep(min(error.retry_after_s, _LONGEST_RETRY_S))
            except ApiError as error:
                if error.status != 401 or refused or not self._credentials.renewable:
                    raise
                refused = True
        raise AssertionError("unreachable")

    async def _once(self, request: _Request, refused: bool) -> Answer:
        session = self._open()
        headers = await self._headers(refused)
        headers["Accept"] = request.accept
        data = None
        if request.body is not None:
            data = json.dumps(request.body, separators=(",", ":")).encode()
            headers["Content-Type"] = request.content_type
        started_s = time.monotonic()
        status = 0
        try:
            async with session.request(
                request.method,
                self.access.server + request.path,
                params=request.params,
                data=data,
                headers=headers,
                proxy=self._proxy,
                server_hostname=self.access.tls_server_name or None,
            ) as response:
                raw = await response.read()
                status, retry_after_s = response.status, _retry_after_s(response)
                again = status == 503 and "Retry-After" in response.headers
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{request}: {_said(error)}") from error
        finally:
            duration_s = time.monotonic() - started_s
            self._on_call(Call(request.method, request.resource, status, duration_s))
        if status >= 400:
            told = _decode(raw)
            raise api_error(429 if again else status, told, str(request), retry_after_s)
        return Answer(raw, str(request))

    async def _headers(self, refused: bool) -> dict[str, str]:
        value = await self._credentials.header(refused=refused)
        return {"Authorization": value} if value else {}

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is not open")
        return self._session


def environment_proxy(server: str) -> str | None:
    """The proxy that HTTPS_PROXY and NO_PROXY ask for. Looked up once: aiohttp would do it in a
    thread for every call, and look for passwords in ~/.netrc as well."""
    parts = urlsplit(server)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


def _decode(raw: bytes) -> Json:
    try:
        value: Json = json.loads(raw) if raw else {}
    except ValueError:
        return {"message": raw[:200].decode(errors="replace").strip()}
    return value


def _retry_after_s(response: aiohttp.ClientResponse) -> float:
    try:
        return float(response.headers.get("Retry-After", "1"))
    except ValueError:
        return 1.0


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
