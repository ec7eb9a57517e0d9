"""Runs that have come to a halt: since when, who waits for whom, and everybody's stacks.

`ProgressTracker` says how long nobody has made a step, and from when on that is too long; `judge`
says whether processes hang and who has not arrived; `StallWatch` does both beside a run.
"""

from mooring.stalls.progress import ProgressTracker
from mooring.stalls.standing import StandingProcess
from mooring.stalls.verdict import StallVerdict, judge
from mooring.stalls.watch import Stall, StallWatch

__all__ = ["ProgressTracker", "Stall", "StallVerdict", "StallWatch", "StandingProcess", "judge"]
