"""Times as an API server writes them: RFC 3339, in UTC. Here they are seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(written: str) -> float:
    """0 for what is no time."""
    try:
        return datetime.fromisoformat(written).timestamp()
    except ValueError:
        return 0.0


def write_time(at_s: float) -> str:
    """With microseconds (`MicroTime`)."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def write_seconds(at_s: float) -> str:
    """In whole seconds (`Time`)."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
