"""A small API client for what the tests arrange and look at; the product has its own.

One connection a thread, JSON in and out, no cleverness: what the API server says is what comes
back.
"""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server said no."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


@dataclass(frozen=True)
class WatchEvent:
    type: str
    object: Json


class Client:
    """Paths are those of the API, `/api/v1/namespaces/default/pods`."""

    def __init__(self, kubeconfig: Path, timeout_s: float = 30.0) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self._address = urlsplit(cluster["server"])
        self._tls = ssl.create_default_context(
            cadata=b64decode(cluster["certificate-authority-data"]).decode()
        )
        self._headers = {"User-Agent": "mooring-test-bed"}
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"
        if "client-certificate-data" in user:
            with NamedTemporaryFile() as pair:
                for part in ("client-certificate-data", "client-key-data"):
                    pair.write(b64decode(user[part]))
                pair.flush()
                self._tls.load_cert_chain(pair.name)
        self._timeout_s = timeout_s
        self._kept = threading.local()

    def get(self, path: str, **query: str) -> Json:
        return self.request("GET", path, query=query)

    def items(self, path: str, **query: str) -> list[Json]:
        found: list[Json] = self.get(path, **query)["items"]
        return found

    def create(self, path: str, body: Json, **query: str) -> Json:
        return self.request("POST", path, body, query)

    def replace(self, path: str, body: Json, **query: str) -> Json:
        return self.request("PUT", path, body, query)

    def patch(self, path: str, body: Json, content_type: str = MERGE, **query: str) -> Json:
        return self.request("PATCH", path, body, query, content_type)

    def delete(self, path: str, grace_s: int | None = None, missing_ok: bool = False) -> None:
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self.request("DELETE", path, body)
        except ApiError as error:
            if not (missing_ok and error.status == 404):
                raise

    def text(self, path: str, **query: str) -> str:
        """Logs, /healthz, /metrics."""
        return self._send("GET", _with(path, query), None, {}).decode(errors="replace")

    def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        answer: Json = json.loads(self._send(method, _with(path, query or {}), data, headers))
        return answer

    @contextmanager
    def watch(
        self, path: str, timeout_s: float = 60.0, **query: str
    ) -> Iterator[Iterator[WatchEvent]]:
        """Events as they come, for at most this long; the connection closes with the block."""
        connection = self._connect(timeout_s + 5)
        try:
            query |= {"watch": "true", "timeoutSeconds": str(int(timeout_s))}
            connection.request("GET", _with(path, query), headers=self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise _error(response.status, response.read())
            yield _events(response)
        finally:
            connection.close()

    def _send(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> bytes:
        fresh = not hasattr(self._kept, "connection")
        if fresh:
            self._kept.connection = self._connect(self._timeout_s)
        connection = self._kept.connection
        try:
            connection.request(method, path, data, {**self._headers, **headers})
            response = connection.getresponse()
            content: bytes = response.read()
        except (OSError, HTTPException):
            connection.close()
            del self._kept.connection
            # A kept connection may have been closed by a restarted server: a GET can be repeated.
            if fresh or method != "GET":
                raise
            return self._send(method, path, data, headers)
        if response.status >= 300:
            raise _error(response.status, content)
        return content

    def _connect(self, timeout_s: float) -> HTTPConnection:
        assert self._address.hostname is not None
        return HTTPSConnection(
            self._address.hostname, self._address.port, timeout=timeout_s, context=self._tls
        )


def _with(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _events(response: HTTPResponse) -> Iterator[WatchEvent]:
    for line in response:
        event = json.loads(line)
        if event["type"] == "ERROR":
            status = event["object"]
            raise ApiError(status["code"], status.get("reason", ""), status.get("message", ""))
        yield WatchEvent(event["type"], event["object"])


def _error(status: int, content: bytes) -> ApiError:
    try:
        told = json.loads(content)
        return ApiError(status, told.get("reason", ""), told.get("message", ""))
    except ValueError:
        return ApiError(status, "", content.decode(errors="replace"))
