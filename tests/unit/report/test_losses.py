"""The loss after a number of examples."""

from __future__ import annotations

import pytest

from mooring.record.journal import Line
from mooring.report.losses import loss_at, points_of


def step(examples: int | None, loss: float | None, epoch: int = 0) -> Line:
    return {"kind": "step", "epoch": epoch, "attempt": 0, "examples": examples, "loss": loss}


STEPS = [step(100, loss) for loss in (0.8, 0.7, 0.6, 0.5)]


@pytest.mark.parametrize(
    ("lines", "examples", "expected"),
    [
        # The last half of 400: the reports at 300 and 400.
        (STEPS, 400, 0.55),
        # Above 150: the reports at 200 and 300.
        (STEPS, 300, 0.65),
        # No report between 50 and 99.
        (STEPS, 99, None),
        # A restart begins again.
        ([*STEPS, step(100, 0.9, 1), step(100, 0.85, 1)], 200, 0.85),
        # A report without a loss still counts its examples.
        ([step(100, 0.8), step(100, None), step(100, 0.6)], 300, 0.6),
    ],
)
def test_after_so_many_examples(lines: list[Line], examples: int, expected: float | None) -> None:
    found = loss_at(points_of(lines), examples)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("lines", [[], [{"kind": "sample"}], [step(None, 0.5)], [step(5, None)]])
def test_who_reports_nothing_has_learnt_nothing_known(lines: list[Line]) -> None:
    assert points_of(lines) == []
