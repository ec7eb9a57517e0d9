"""How variables are divided over parameter servers: pure arithmetic, standard library only.

The SDK places variables by it and `moor variables` compares placements by it, so that what is
predicted is what is done. Three placements:

round-robin   whole variables in turn, as TensorFlow does when nobody says otherwise
balanced      whole variables, each to the server that has the fewest bytes so far
partitioned   what is large is cut by rows into a part for each server; the rest is balanced
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

#: A variable below this stays whole: a part costs a message of its own in every step, and a
#: message of some hundred bytes takes as long as one of some kilobytes.
LEAST_PARTED_BYTES = 256 << 10
#: A message of gRPC and a protocol buffer end at 2 GiB; half of it leaves room for both.
MOST_SHARD_BYTES = 1 << 30


class VariablePlacement(StrEnum):
    """How variables are divided over the servers of a job."""

    ROUND_ROBIN = "round-robin"
    BALANCED = "balanced"
    PARTITIONED = "partitioned"


@dataclass(frozen=True)
class Variable:
    """One variable as its author made it.

    step_bytes: what all workers together read and write of it in one step, both directions.
    """

    name: str
    rows: int
    size_bytes: int
    step_bytes: float = 0.0


@dataclass(frozen=True)
class Part:
    """Rows `begin` to `end` of a variable on one server."""

    variable: str
    server: int
    begin: int
    end: int
    size_bytes: float
    step_bytes: float


@dataclass(frozen=True)
class Layout:
    """Where everything is under one placement."""

    placement: VariablePlacement
    servers: int
    parts: tuple[Part, ...]

    def step_bytes(self) -> list[float]:
        """Bytes a step of each server."""
        return _sums(self.servers, ((part.server, part.step_bytes) for part in self.parts))

    def size_bytes(self) -> list[float]:
        return _sums(self.servers, ((part.server, part.size_bytes) for part in self.parts))

    @property
    def imbalance(self) -> float:
        """The busiest server's bytes a step over the mean; 1 is even."""
        return imbalance(self.step_bytes())


def imbalance(loads: Sequence[float]) -> float:
    """The highest over the mean: never below 1, which rounding would make it for equal loads."""
    total = sum(loads)
    return max(1.0, max(loads) * len(loads) / total) if total > 0 else 1.0


def shards(rows: int, size_bytes: int, servers: int, most_bytes: int = MOST_SHARD_BYTES) -> int:
    """Into how many parts a variable is cut: 1, or a multiple of the servers (fewer if it has
    fewer rows), so that every server gets the same."""
    if rows < 2 or servers < 2 or size_bytes < LEAST_PARTED_BYTES:
        return 1
    rounds = max(1, math.ceil(size_bytes / (servers * max(1, most_bytes))))
    return min(rows, rounds * servers)


def lay_out(
    variables: Iterable[Variable],
    servers: int,
    placement: VariablePlacement,
    most_bytes: int = MOST_SHARD_BYTES,
) -> Layout:
    """Where each variable, or each part of it, goes; variables in the order of their making."""
    placer = Placer(servers, placement)
    parts: list[Part] = []
    for variable in variables:
        count = 1
        if placement is VariablePlacement.PARTITIONED:
            count = shards(variable.rows, variable.size_bytes, servers, most_bytes)
        begin = 0
        for number in range(count):
            end = begin + part_rows(variable.rows, count, number)
            share = (end - begin) / variable.rows if variable.rows else 1.0
            size = share * variable.size_bytes
            server = placer.place(size)
            parts.append(Part(variable.name, server, begin, end, size, share * variable.step_bytes))
            begin = end
    return Layout(placement, servers, tuple(parts))


def part_rows(rows: int, count: int, number: int) -> int:
    """As TensorFlow divides: 10 rows in 4 parts are 3, 3, 2, 2."""
    return rows // count + (1 if number < rows % count else 0)


class Placer:
    """Says which server the next variable or part goes to."""

    def __init__(self, servers: int, placement: VariablePlacement) -> None:
        self._loads = [0.0] * servers
        self._in_turn = placement is VariablePlacement.ROUND_ROBIN
        self._next = 0

    def peek(self) -> int:
        """Where the next one goes, whatever its size."""
        if self._in_turn:
            return self._next
        return self._loads.index(min(self._loads))

    def place(self, size_bytes: float) -> int:
        server = self.peek()
        self._loads[server] += size_bytes
        self._next = (self._next + 1) % len(self._loads)
        return server


def _sums(servers: int, loads: Iterable[tuple[int, float]]) -> list[float]:
    found = [0.0] * servers
    for server, load in loads:
        found[server] += load
    return found
