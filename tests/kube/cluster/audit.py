"""The API server's audit log, as values: who did what to which object, and what the answer was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class AuditEntry:
    """One answered request. Of a watch: its end."""

    id: str
    time: str
    user: str
    user_agent: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uri: str
    code: int
    stage: str
    received_s: float
    answered_s: float
    """Seconds since the epoch of Unix, by the API server's clock."""

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES


def write_policy(path: Path) -> Path:
    """Everything, without bodies: a body could hold a secret, and takes most of the time."""
    document = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@dataclass(frozen=True)
class AuditLog:
    path: Path

    def position(self) -> int:
        """Where the log ends now: `since` for what comes."""
        return self.path.stat().st_size

    def entries(self, since: int = 0, user: str | None = None) -> Iterator[AuditEntry]:
        """Answered requests, in the order of their answers."""
        for entry, _ in self.entries_at(since):
            if user is None or entry.user == user:
                yield entry

    def entries_at(self, since: int = 0) -> Iterator[tuple[AuditEntry, int]]:
        """Each with where it ends in the log: `since` for what comes after it."""
        with self.path.open("rb") as log:
            log.seek(since)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                since += len(line)
                yield _entry(json.loads(line)), since


def _entry(event: dict[str, Any]) -> AuditEntry:
    about = event.get("objectRef", {})
    return AuditEntry(
        id=event["auditID"],
        time=event["requestReceivedTimestamp"],
        user=event["user"].get("username", ""),
        user_agent=event.get("userAgent", ""),
        verb=event["verb"],
        group=about.get("apiGroup", ""),
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        uri=event["requestURI"],
        code=event.get("responseStatus", {}).get("code", 0),
        stage=event["stage"],
        received_s=_seconds(event["requestReceivedTimestamp"]),
        answered_s=_seconds(event["stageTimestamp"]),
    )


def _seconds(written: str) -> float:
    return datetime.fromisoformat(written).timestamp()
