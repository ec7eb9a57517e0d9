"""A reader of server-sent events, over any connection of http.client."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ServerEvent:
    """`id` is '' for an event without a place; `comment`: a heart-beat and nothing else."""

    name: str
    id: str
    data: Any
    comment: str = ""


@contextmanager
def events_at(
    path: Path, address: str, headers: Mapping[str, str] | None = None, timeout_s: float = 30
) -> Iterator[Iterator[ServerEvent]]:
    """The events of an address below /api/v1, on a Unix socket."""
    connection = http.client.HTTPConnection("localhost", timeout=timeout_s)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.settimeout(timeout_s)
    connection.sock.connect(str(path))
    with closing(connection):
        connection.request("GET", f"/api/v1{address}", headers=dict(headers or {}))
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.getheader("Content-Type") == "text/event-stream"
        yield _events(response)


def _events(response: http.client.HTTPResponse) -> Iterator[ServerEvent]:
    fields: dict[str, str] = {}
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith(":"):
            yield ServerEvent("", "", None, line)
        elif line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            name, place = fields.get("event", ""), fields.get("id", "")
            yield ServerEvent(name, place, json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}
