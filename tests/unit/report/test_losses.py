"""The loss after a number of examples."""

from __future__ import annotations

import pytest

from mooring.record.journal import Line
from mooring.report.losses import Learnt, learnt_at, points_of


def step(examples: int | None, loss: float | None, epoch: int = 0) -> Line:
    return {"kind": "step", "epoch": epoch, "attempt": 0, "examples": examples, "loss": loss}


STEPS = [step(100, loss) for loss in (0.8, 0.7, 0.6, 0.5)]


@pytest.mark.parametrize(
    ("lines", "examples", "expected"),
    [
        # The last quarter of 400: above 300, so the report at 400 alone.
        (STEPS, None, Learnt(400, 0.5)),
        # Above 0.75 × 300 = 225: the report at 300.
        (STEPS, 300, Learnt(300, 0.6)),
        # 8 reports of 50: above 300 are 350 and 400, (0.2 + 0.4) / 2.
        ([step(50, one / 10) for one in (9, 8, 7, 6, 5, 4, 2, 4)], 400, Learnt(400, 0.3)),
        (STEPS, 500, None),
        # No report between 75 and 99.
        (STEPS, 99, None),
        # A restart begins again.
        ([*STEPS, step(100, 0.9, 1), step(100, 0.85, 1)], None, Learnt(200, 0.85)),
        # A report without a loss still counts its examples.
        ([step(100, 0.8), step(100, None), step(100, 0.6)], None, Learnt(300, 0.6)),
    ],
)
def test_after_so_many_examples(
    lines: list[Line], examples: int | None, expected: Learnt | None
) -> None:
    found = learnt_at(points_of(lines), examples)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert (found.examples, found.loss) == (expected.examples, pytest.approx(expected.loss))


@pytest.mark.parametrize("lines", [[], [{"kind": "sample"}], [step(None, 0.5)], [step(5, None)]])
def test_who_reports_nothing_has_learnt_nothing_known(lines: list[Line]) -> None:
    assert points_of(lines) == []
