"""Durations and sizes as text: one way for people, and the notation of job files."""

from __future__ import annotations

_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def duration(seconds: float | None) -> str:
    """For people, the two largest units: `0.4 s`, `45 s`, `1 min 30 s`, `2 h`, `1 d 3 h`.

    Below a minute tenths are shown unless there are none; `–` for a duration that is not known.
    """
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds} s" if isinstance(seconds, int) else f"{seconds:.1f} s"
    whole = round(seconds)
    for size_s, unit, below_s, below in _UNITS:
        if whole >= size_s:
            count, rest = whole // size_s, whole % size_s // below_s
            return f"{count} {unit} {rest} {below}" if rest else f"{count} {unit}"
    raise AssertionError


def rough_duration(seconds: float) -> str:
    """For estimates, no finer than they can be known: `40 s`, `5 min`, `3 h 20 min`, `1 d 4 h`."""
    if seconds < 60:
        return f"{max(5, 5 * round(seconds / 5))} s"
    if seconds < 3600:
        return f"{round(seconds / 60)} min"
    if seconds < 86_400 - 300:
        return duration(600 * round(seconds / 600))
    return duration(3600 * round(seconds / 3600))


def format_duration(seconds: float) -> str | float:
    """As a job file writes it, the shortest exact text; a plain number where none is exact."""
    millis = round(seconds * 1000)
    if millis / 1000 != seconds:
        return seconds
    parts = []
    for unit, size_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, millis = divmod(millis, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def size(amount_bytes: float) -> str:
    """For people: `512 B`, `1.5 KiB`, `2.0 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount_bytes) < 1024 or unit == "TiB":
            return f"{amount_bytes:.0f} {unit}" if unit == "B" else f"{amount_bytes:.1f} {unit}"
        amount_bytes /= 1024
    raise AssertionError
