"""Asking the machine's service: HTTP over its Unix socket, with the standard library alone.

A command that only asks must be quick: importing a client of aiohttp would take longer than the
answer.
"""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

from mooring.backends.local.queue.folders import QueueHome, queue_home
from mooring.backends.local.queue.socket_path import short_path
from mooring.model.errors import BadInput, MooringError, Problem

API = "/api/v1"
_TIMEOUT_S = 60.0
_MOST_ANSWER_BYTES = 256 << 20


class NoService(MooringError):
    """Nobody listens."""


class ServiceFailed(MooringError):
    """The service answers that it cannot."""


class NoAnswer(ServiceFailed):
    """It was there, and the connection broke before it answered."""


class NotFound(MooringError):
    """The service knows no such thing."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, home: QueueHome, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._home = home

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with short_path(self._home.socket) as address:
            self.sock.connect(address)


class ServiceClient:
    """The service of one state home."""

    def __init__(self, home: QueueHome | None = None, timeout_s: float = _TIMEOUT_S) -> None:
        self.home = home or queue_home()
        self._timeout_s = timeout_s

    def is_there(self) -> bool:
        """Whether somebody listens; costs next to nothing where there never was a service."""
        if not self.home.socket.exists():
            return False
        connection = _Connection(self.home, self._timeout_s)
        try:
            connection.connect()
        except OSError:
            return False
        finally:
            connection.close()
        return True

    def get(self, path: str) -> dict[str, Any]:
        return self._ask("GET", path, None)

    def post(self, path: str, body: object) -> dict[str, Any]:
        return self._ask("POST", path, body)

    def delete(self, path: str) -> dict[str, Any]:
        return self._ask("DELETE", path, None)

    def _ask(self, method: str, path: str, body: object) -> dict[str, Any]:
        """Raises NoService, BadInput for what is refused, NotFound or ServiceFailed."""
        connection = _Connection(self.home, self._timeout_s)
        data = None if body is None else json.dumps(body).encode(errors="surrogateescape")
        try:
            connection.request(
                method, API + path, body=data, headers={"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            text = response.read(_MOST_ANSWER_BYTES)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NoService("no service runs here: start it with `moor serve`") from error
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"the service did not answer: {error or type(error)}") from error
        finally:
            connection.close()
        try:
            document: dict[str, Any] = json.loads(text) if text else {}
        except ValueError as error:
            raise ServiceFailed("the service's answer is no JSON") from error
        if response.status >= 400:
            _refuse(response.status, document)
        return document


def _refuse(status: int, document: dict[str, Any]) -> None:
    problems = document.get("problems") or []
    if problems:
        raise BadInput(
            str(document.get("source") or "moor"),
            [
                Problem(str(one["path"]), str(one["found"]), str(one["accepted"]), one.get("line"))
                for one in problems
            ],
        )
    said = str(document.get("error") or f"HTTP {status}")
    if status == 404:
        raise NotFound(said)
    raise ServiceFailed(said)
