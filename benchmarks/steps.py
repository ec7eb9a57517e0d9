"""Step times out of the moments at which steps ended, as `jobs/mlp.py` writes them down."""

from __future__ import annotations

import json
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True)
class Steps:
    """One worker: `ends_s` on the machine's monotonic clock; the first is where it began."""

    batch: int
    threads: int
    ends_s: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        """Time for each step, with whatever came between: what interferes rarely counts too."""
        return self.span_s / self.count

    @property
    def span_s(self) -> float:
        return self.ends_s[-1] - self.ends_s[0]

    @property
    def count(self) -> int:
        return len(self.ends_s) - 1

    @property
    def median_s(self) -> float:
        return statistics.median(end - begin for begin, end in pairwise(self.ends_s))

    @property
    def examples_per_s(self) -> float:
        return self.batch / self.mean_s

    def between(self, begin_s: float, end_s: float) -> Steps:
        """The steps that lie wholly in a window."""
        return self._part(bisect_left(self.ends_s, begin_s), bisect_right(self.ends_s, end_s))

    def ending_in(self, begin_s: float, end_s: float) -> Steps:
        """The steps that end in a window: of neighbouring windows each step is in one.

        A step that a border cuts is likely a long one; so no window may have more of those.
        """
        first = max(0, bisect_right(self.ends_s, begin_s) - 1)
        return self._part(first, bisect_right(self.ends_s, end_s))

    def _part(self, first: int, end: int) -> Steps:
        part = self.ends_s[first:end]
        if len(part) < 2:
            raise ValueError("no step in this window")
        return Steps(self.batch, self.threads, part)


def read_steps(folder: Path, count: int) -> list[Steps]:
    found = []
    for index in range(count):
        document = json.loads((folder / f"steps-{index}.json").read_text(encoding="utf-8"))
        found.append(Steps(document["batch"], document["threads"], tuple(document["ends_s"])))
    return found


def mean_step_s(workers: Sequence[Steps]) -> float:
    return statistics.fmean(worker.mean_s for worker in workers)


def pooled_step_s(windows: Sequence[Sequence[Steps]]) -> float:
    """Mean step over several windows of the same workers: longer windows count for more."""
    workers = zip(*windows, strict=True)
    return statistics.fmean(
        sum(window.span_s for window in worker) / sum(window.count for window in worker)
        for worker in workers
    )


def median_step_s(workers: Sequence[Steps]) -> float:
    return statistics.fmean(worker.median_s for worker in workers)


def examples_per_s(workers: Sequence[Steps]) -> float:
    return sum(worker.examples_per_s for worker in workers)


def slowest_per_s(workers: Sequence[Steps]) -> float:
    """What counts where workers wait for each other at every step."""
    return min(worker.examples_per_s for worker in workers)
