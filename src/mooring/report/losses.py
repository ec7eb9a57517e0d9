"""The loss after a number of examples: what two runs of one job can be compared by.

Two runs at different speeds have seen different amounts of data at any time; what counts is what
they have learnt from the same amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import mean

from mooring.record import RunRecord
from mooring.record.plan_file import read_holdings
from mooring.report.gains import Losses
from mooring.wire import read_journal
from mooring.wire.members import Step

#: The loss of one batch is mostly chance: the mean over the last half of the examples counts.
_PART = 0.5
_PLACES = 10

#: (examples so far, loss) at each report.
Points = list[tuple[int, float]]


def compare_losses(before: Sequence[RunRecord], after: Sequence[RunRecord]) -> Losses | None:
    """After as many examples as all of the runs have had; None if one reports no losses."""
    curves = [[loss_points(run) for run in runs] for runs in (before, after)]
    if not all(curves) or not all(points for points in [*curves[0], *curves[1]]):
        return None
    examples = min(points[-1][0] for points in [*curves[0], *curves[1]])
    losses = [[loss_at(points, examples) for points in side] for side in curves]
    known = [tuple(one for one in side if one is not None) for side in losses]
    if any(len(side) < len(all_of) for side, all_of in zip(known, losses, strict=True)):
        return Losses(examples, (), ())
    return Losses(examples, known[0], known[1])


def loss_points(run: RunRecord) -> Points:
    """Of the first member that reports losses and examples."""
    for holding in read_holdings(run.plan_file):
        points = points_of(read_journal(run.sample_file(holding.member.name), Step))
        if points:
            return points
    return []


def points_of(steps: Iterable[Step]) -> Points:
    """A restart counts from zero."""
    points: Points = []
    done, start = 0, (0, 0)
    for step in steps:
        if step.start != start:
            points, done, start = [], 0, step.start
        done += step.examples or 0
        if step.loss is not None and done:
            points.append((done, step.loss))
    return points


def loss_at(points: Points, examples: int) -> float | None:
    """The mean over the last half of so many examples; None if nothing was reported by then.

    Between two reports the loss is taken to change evenly: a fast run's are farther apart.
    """
    if not points or points[0][0] > examples:
        return None
    from_ = max((1 - _PART) * examples, points[0][0])
    places = [from_ + (examples - from_) * place / _PLACES for place in range(_PLACES + 1)]
    return mean(_between(points, place) for place in places)


def _between(points: Points, examples: float) -> float:
    for (before, loss), (after, next_loss) in pairwise(points):
        if before <= examples <= after and after > before:
            return loss + (next_loss - loss) * (examples - before) / (after - before)
    return points[-1][1]
