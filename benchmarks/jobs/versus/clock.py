"""Times the steps of a training loop; the first rank leaves them in the folder VERSUS_OUT."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from pathlib import Path

#: Compilation, connections, caches: not what a step takes.
WARM_UP = 10


class Clock:
    """Call it after each step."""

    def __init__(self) -> None:
        self._ends_s: list[float] = []

    def __call__(self) -> None:
        self._ends_s.append(time.perf_counter())

    def write(self, name: str = "") -> None:
        """The median step, so that a stutter of the machine does not count."""
        ends_s = self._ends_s[WARM_UP:]
        steps_ms = [1000 * (end - begin) for begin, end in itertools.pairwise(ends_s)]
        document = {
            "steps": len(self._ends_s),
            "step_ms": statistics.median(steps_ms),
            "mean_step_ms": statistics.fmean(steps_ms),
        }
        folder = Path(os.environ["VERSUS_OUT"])
        (folder / f"{name or os.getpid()}.json").write_text(json.dumps(document))
