"""Which finding comes first: causes before what they explain, and only what was excluded is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from building import run

from mooring.doctor.finding import CheckAnswer, Confidence, Finding, Found, Gain, Remedy
from mooring.doctor.ordering import Causes, in_order
from mooring.doctor.registry import Check, CheckPage, DoesNotApply, NotRecognised, Unknown, diagnose


def finding(id: str, weight: float, *members: str) -> Finding:
    found = Found("", (), Remedy(""), Confidence.LIKELY, weight, members)
    return Finding(id, id, "", found)


CAUSES = {
    "slow": Causes(frozenset({"card"}), frozenset({"input"})),
    "card": Causes(frozenset({"slow"})),
}


@pytest.mark.parametrize(
    ("findings", "order", "because"),
    [
        # The cause is first although it weighs less.
        ([("slow", 0.6, "a"), ("card", 0.4, "b")], ["card", "slow"], ["card"]),
        # Too small to explain it: 0.1 < 0.3 × 0.6.
        ([("slow", 0.6, "a"), ("card", 0.1, "b")], ["slow", "card"], []),
        # Input explains the slowness of the same member only.
        ([("slow", 0.6, "a"), ("input", 0.5, "a")], ["input", "slow"], ["input"]),
        ([("slow", 0.6, "a"), ("input", 0.5, "b")], ["slow", "input"], []),
        ([("other", 0.2), ("slow", 0.1)], ["other", "slow"], []),
    ],
)
def test_causes_come_before_what_they_explain(
    findings: Sequence[tuple[str, float]], order: list[str], because: list[str]
) -> None:
    ordered = in_order([finding(*one) for one in findings], {"slow": CAUSES["slow"]})
    assert [one.id for one in ordered] == order
    assert list(next(one for one in ordered if one.id == "slow").because) == because


def test_two_that_explain_each_other_stay_by_weight() -> None:
    ordered = in_order([finding("slow", 0.6), finding("card", 0.5)], CAUSES)
    assert {one.id for one in ordered} == {"slow", "card"}


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (Unknown("no samples"), CheckAnswer.UNSEEN),
        (NotRecognised("80 % in spam.py:3"), CheckAnswer.NOT_RECOGNISED),
        (DoesNotApply("no servers"), CheckAnswer.NOT_ASKED),
        (None, CheckAnswer.EXCLUDED),
    ],
)
def test_only_what_was_looked_at_is_excluded(error: Unknown | None, answer: CheckAnswer) -> None:
    def rule(_facts: object) -> list[Found]:
        if error is not None:
            raise error
        return []

    [checked] = diagnose(run(), [Check("x", "X", CheckPage("", "", ""), rule)], "of").checked
    assert checked.answer is answer
    assert checked.unknown == (str(error) if error else "")


def test_a_gain_is_what_the_freed_time_is_worth() -> None:
    gain = Gain.of_freed(0.2, 0.5, "half of a step")
    assert (gain.low, gain.high) == (1.25, 2.0)
    assert Gain.of_freed(0.0, 1.0, "").high == pytest.approx(10.0)
