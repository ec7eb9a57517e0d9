"""One connection to an API server: calls and answers as text, errors by kind.

Only a call that the server refused to look at (429, or 503 with Retry-After) is made again here.
Whether to repeat one whose fate is unknown is up to the caller, who can look first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from mooring.backends.kubernetes.api import codec
from mooring.backends.kubernetes.api.codec import JSON
from mooring.backends.kubernetes.api.credentials import Credentials, tls_context
from mooring.backends.kubernetes.api.document import Json, Object
from mooring.backends.kubernetes.api.errors import ApiError, Overloaded, Unreachable, api_error
from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess
from mooring.backends.kubernetes.api.streams import Cutter, Frames, LineStream
from mooring.version import VERSION

_CONNECTIONS = 64
_CALL_TIMEOUT_S = 60.0
_TRIES = 4
#: A page of the largest objects that a server stores; one that sends more is none.
_LARGEST_ANSWER_BYTES = 256 * 1024 * 1024
#: Of a refusal.
_LARGEST_REFUSAL_BYTES = 1024 * 1024
_LONGEST_RETRY_S = 10.0


@dataclass(frozen=True)
class ApiCall:
    """One call that was answered, for metrics. `status` 0: it was not."""

    method: str
    resource: str
    status: int
    duration_s: float


@dataclass(frozen=True)
class Request:
    """One call to be made, and under which name metrics count it."""

    method: str
    path: str
    resource: str
    params: Mapping[str, str] | None = None
    body: Json = None
    content_type: str = JSON
    accept: str = JSON
    most_bytes: int = _LARGEST_ANSWER_BYTES
    """An answer that is longer counts as none."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Response:
    """What the server answered, or a part of it; not read yet."""

    raw: bytes
    to: str
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    def read(self) -> Object:
        """Raises Unreachable for what is no object: it is not the API server who said that."""
        try:
            found = codec.read(self.raw, self.media) if self.raw else {}
        except ValueError as error:
            raise Unreachable(f"{self.to}: the answer ({self.media}) is no object") from error
        if not isinstance(found, dict):
            raise Unreachable(f"{self.to}: the answer ({self.media}) is no object")
        return found


class ApiConnection:
    """Used as an async context manager. `on_call` is told of each call."""

    def __init__(
        self,
        access: ClusterAccess,
        on_call: Callable[[ApiCall], None] | None = None,
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
            # Never packed or unpacked: some kilobytes of a pod's answer could become gigabytes.
            headers={"User-Agent": f"mooring/{VERSION}", "Accept-Encoding": "identity"},
            auto_decompress=False,
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

    async def parts(
        self,
        path: str,
        resource: str,
        params: Mapping[str, str],
        timeout_s: float | None,
        accept: str = JSON,
    ) -> AsyncIterator[Response]:
        """The messages of an answer that comes bit by bit: a watch, or the lines of a log."""
        session = self._open()
        # A server that says nothing for as long as it may be silent is gone.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=timeout_s)
        headers = await self._headers(accept, refused=False)
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
                self._on_call(ApiCall("WATCH", resource, status, time.monotonic() - started_s))
                media = response.headers.get("Content-Type", JSON)
                if status >= 400:
                    told = _told(await _read(response, _LARGEST_REFUSAL_BYTES), media)
                    raise api_error(status, told, f"GET {path}", _retry_after_s(response))
                cutter: Cutter = Frames() if codec.is_protobuf(media) else LineStream()
                async for chunk in response.content.iter_any():
                    for part in cutter.whole(chunk):
                        yield Response(part, f"GET {path}", media)
                if last := cutter.last():
                    yield Response(last, f"GET {path}", media)
        except ValueError as error:
            raise Unreachable(f"GET {path}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if not status:
                self._on_call(ApiCall("WATCH", resource, 0, time.monotonic() - started_s))
            raise Unreachable(f"GET {path}: {_said(error)}") from error

    async def answer(self, request: Request) -> Response:
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

    async def _once(self, request: Request, refused: bool) -> Response:
        session = self._open()
        headers = await self._headers(request.accept, refused=refused)
        data = None
        if request.body is not None:
            data = codec.write(request.body)
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
                raw = await _read(response, request.most_bytes)
                media = response.headers.get("Content-Type", JSON)
                told_headers = response.headers
                status, retry_after_s = response.status, _retry_after_s(response)
                again = status == 503 and "Retry-After" in response.headers
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"{request}: {_said(error)}") from error
        finally:
            duration_s = time.monotonic() - started_s
            self._on_call(ApiCall(request.method, request.resource, status, duration_s))
        if status >= 400:
            told = _told(raw, media)
            raise api_error(429 if again else status, told, str(request), retry_after_s)
        return Response(raw, str(request), media, told_headers)

    async def _headers(self, accept: str, *, refused: bool) -> dict[str, str]:
        headers = {"Accept": accept}
        value = await self._credentials.header(refused=refused)
        if value:
            headers["Authorization"] = value
        return headers

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is not open")
        return self._session


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """The whole answer. Raises ValueError as soon as it is longer than that."""
    chunks: list[bytes] = []
    length = 0
    async for chunk in response.content.iter_any():
        length += len(chunk)
        if length > most_bytes:
            raise ValueError(f"an answer of over {most_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def environment_proxy(server: str) -> str | None:
    """The proxy that HTTPS_PROXY and NO_PROXY ask for. Looked up once: aiohttp would do it in a
    thread for every call, and look for passwords in ~/.netrc as well."""
    parts = urlsplit(server)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


def _told(raw: bytes, media: str) -> Json:
    """Of a refusal: a Status, or the text of whoever stands before the server."""
    try:
        return codec.read(raw, media) if raw else {}
    except ValueError:
        return {"message": raw[:200].decode(errors="replace").strip()}


def _retry_after_s(response: aiohttp.ClientResponse) -> float:
    try:
        return float(response.headers.get("Retry-After", "1"))
    except ValueError:
        return 1.0


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
