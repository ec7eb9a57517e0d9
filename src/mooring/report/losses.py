"""The loss after a number of examples: what two runs of one job can be compared by.

Two runs at different speeds have seen different amounts of data at any time; what counts is what
they have learnt from the same amount.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mooring.record import RunRecord, read_lines
from mooring.record.journal import Line
from mooring.record.plan_file import read_holdings

#: The loss of one batch is mostly chance: the mean of the last quarter of the examples counts.
_PART = 0.25
#: A loss that is higher by more than this is worth a word.
WORSE_PERCENT = 1.0


@dataclass(frozen=True)
class Learnt:
    """The mean loss of the last quarter of `examples`."""

    examples: int
    loss: float


def learnt(run: RunRecord, examples: int | None = None) -> Learnt | None:
    """After so many examples of the member that reports losses, or after all that it had.

    None if nobody reports both, or if it did not come that far.
    """
    for holding in read_holdings(run.plan_file):
        points = points_of(read_lines(run.sample_file(holding.member.name)))
        if points:
            return learnt_at(points, examples)
    return None


def points_of(lines: Iterable[Line]) -> list[tuple[int, float]]:
    """(examples so far, loss) at each report; a restart counts from zero."""
    points: list[tuple[int, float]] = []
    done, start = 0, (0, 0)
    for line in lines:
        if line.get("kind") != "step":
            continue
        epoch, attempt = line.get("epoch"), line.get("attempt")
        now = (epoch if isinstance(epoch, int) else 0, attempt if isinstance(attempt, int) else 0)
        if now != start:
            points, done, start = [], 0, now
        more, loss = line.get("examples"), line.get("loss")
        done += more if isinstance(more, int) else 0
        if isinstance(loss, int | float) and done:
            points.append((done, float(loss)))
    return points


def learnt_at(points: list[tuple[int, float]], examples: int | None) -> Learnt | None:
    last = points[-1][0]
    upto = last if examples is None else examples
    if last < upto:
        return None
    late = [loss for done, loss in points if (1 - _PART) * upto < done <= upto]
    return Learnt(upto, sum(late) / len(late)) if late else None
