"""The registry of entry points, and one attempt at one of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mooring.model.errors import MooringError

#: CPU time of one input; none is larger than some hundred kilobytes.
LONGEST_S = 1.0

Target = Callable[[bytes], object]


@dataclass(frozen=True)
class Entry:
    """What reads bytes from outside. `refusals`: how it says that they are not good."""

    name: str
    target: Target
    seeds: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...]
    group: str


ENTRIES: dict[str, Entry] = {}


def entry(
    name: str,
    seeds: Sequence[bytes | str],
    *refusals: type[Exception],
    group: str,
) -> Callable[[Target], Target]:
    """Register a function that hands bytes to an entry point as it gets them from outside."""

    def register(target: Target) -> Target:
        as_bytes = tuple(one.encode() if isinstance(one, str) else one for one in seeds)
        assert name not in ENTRIES and as_bytes
        ENTRIES[name] = Entry(name, target, as_bytes, (MooringError, *refusals), group)
        return target

    return register


class TooSlow(AssertionError):
    pass


def attempt(one: Entry, data: bytes) -> float:
    """Give it the bytes; seconds of CPU that it took. Raises whatever is no refusal."""
    begun_s = time.process_time()
    try:
        one.target(data)
    except one.refusals:
        pass
    took_s = time.process_time() - begun_s
    if took_s > LONGEST_S:
        raise TooSlow(f"{one.name}: {took_s:.2f} s for {len(data)} bytes")
    return took_s
