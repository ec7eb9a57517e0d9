"""Runs that have come to a halt: since when, who waits for whom, and everybody's stacks.

`Progress` says how long nobody has made a step, and from when on that is too long; `judge` says
whether processes hang and who has not arrived; `StallWatch` does both beside a run.
"""

from mooring.stalls.progress import Progress
from mooring.stalls.standing import Standing
from mooring.stalls.verdict import Verdict, judge
from mooring.stalls.watch import Stall, StallWatch

__all__ = ["Progress", "Stall", "StallWatch", "Standing", "Verdict", "judge"]
