"""Comparing two ways of doing the same work when the machine's speed drifts.

Both ways run in turn, A B then B A, and only the two halves of a pair are compared: what changes
slowly (heat, other tenants) is then the same for both, and what the order favours cancels out.
The interval of the median assumes nothing about how the ratios are distributed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Interval:
    """Where the middle of the ratios lies, and how sure that is."""

    low: float
    high: float
    coverage: float

    def __str__(self) -> str:
        return f"{self.low:.3f}–{self.high:.3f}"


@dataclass(frozen=True)
class Ratios:
    """One ratio a pair."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    @property
    def spread(self) -> float:
        """Width of all ratios, as a part of their median."""
        return (self.high - self.low) / self.median

    def interval(self, confidence: float = 0.9) -> Interval:
        return median_interval(self.values, confidence)

    def document(self) -> dict[str, object]:
        interval = self.interval()
        return {
            "median": round(self.median, 5),
            "min": round(self.low, 5),
            "max": round(self.high, 5),
            "spread": round(self.spread, 5),
            "interval": [round(interval.low, 5), round(interval.high, 5)],
            "interval_coverage": round(interval.coverage, 4),
            "pairs": [round(value, 5) for value in self.values],
        }

    def __str__(self) -> str:
        digits = 3 if self.median < 3 else 2
        return f"{self.median:.{digits}f} ({self.low:.{digits}f}–{self.high:.{digits}f})"


def orders(pairs: int) -> Iterator[tuple[int, int]]:
    """Which of the two goes first: 0 1, then 1 0, and so on."""
    for number in range(pairs):
        yield (0, 1) if number % 2 == 0 else (1, 0)


def interleave(first: Callable[[], T], second: Callable[[], T], pairs: int) -> list[tuple[T, T]]:
    """Run both in alternating order; each pair is (what `first` gave, what `second` gave)."""
    ways = (first, second)
    found: list[tuple[T, T]] = []
    for order in orders(pairs):
        results = {which: ways[which]() for which in order}
        found.append((results[0], results[1]))
    return found


def ratios(pairs: Sequence[tuple[T, T]], figure: Callable[[T], float]) -> Ratios:
    """`second / first` of one figure, for each pair."""
    return Ratios(tuple(figure(second) / figure(first) for first, second in pairs))


def median_interval(values: Sequence[float], confidence: float) -> Interval:
    """The narrowest pair of order statistics that holds the median with `confidence`.

    Each value is above the median with chance 1/2, so the number above it is binomial. With too
    few values the whole range is returned, with the coverage that it has.
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        raise ValueError("no values")
    cut = 0
    while cut + 1 < (count + 1) // 2 and _coverage(count, cut + 1) >= confidence:
        cut += 1
    return Interval(ordered[cut], ordered[count - 1 - cut], _coverage(count, cut))


def mean_interval(values: Sequence[float], errors: float = 1.96) -> Interval:
    """The geometric mean of many ratios, give or take `errors` standard errors."""
    logs = [math.log(value) for value in values]
    mean, error = statistics.fmean(logs), statistics.stdev(logs) / len(logs) ** 0.5
    coverage = math.erf(errors / math.sqrt(2))
    return Interval(math.exp(mean - errors * error), math.exp(mean + errors * error), coverage)


def _coverage(count: int, cut: int) -> float:
    """Chance that the median lies between the order statistics `cut` from either end."""
    outside = sum(math.comb(count, above) for above in range(cut + 1))
    return max(0.0, 1 - 2.0 * outside / (1 << count))
