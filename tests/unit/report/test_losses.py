"""The loss after a number of examples."""

from __future__ import annotations

import pytest

from mooring.report.losses import loss_at, points_of
from mooring.wire.members import Step


def step(examples: int | None, loss: float | None, epoch: int = 0) -> Step:
    return Step(1.0, epoch=epoch, examples=examples, loss=loss)


STEPS = [step(100, loss) for loss in (0.8, 0.7, 0.6, 0.5)]


@pytest.mark.parametrize(
    ("steps", "examples", "expected"),
    [
        # From 200 (0.7) to 400 (0.5), evenly.
        (STEPS, 400, 0.6),
        # From 150 (0.75) to 300 (0.6).
        (STEPS, 300, 0.675),
        # From the first report at 100 on, to 0.75 at 150.
        (STEPS, 150, 0.775),
        # Nothing was reported by then.
        (STEPS, 99, None),
        # A restart begins again: from 0.9 to 0.85.
        ([*STEPS, step(100, 0.9, 1), step(100, 0.85, 1)], 200, 0.875),
        # A report without a loss still counts its examples: from 150 (0.75) to 300 (0.6).
        ([step(100, 0.8), step(100, None), step(100, 0.6)], 300, 0.675),
        # Reports that are far apart: from 0.7 at 200 to 0.5 at 400.
        ([step(100, 0.8), step(500, 0.3)], 400, 0.6),
    ],
)
def test_after_so_many_examples(steps: list[Step], examples: int, expected: float | None) -> None:
    found = loss_at(points_of(steps), examples)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("steps", [[], [step(None, 0.5)], [step(5, None)]])
def test_who_reports_nothing_has_learnt_nothing_known(steps: list[Step]) -> None:
    assert points_of(steps) == []
