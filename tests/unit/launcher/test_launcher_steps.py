"""Steps: recognised in lines, summed up, passed on a few times a second."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.launcher.steps import LINES_PER_SECOND, Steps


class Written:
    def __init__(self, pattern: str | None = None, per_step: int | None = None, ranks: int = 1):
        self.lines: list[dict[str, Any]] = []
        self.steps = Steps(lambda fields, t: self.lines.append(fields), pattern, per_step, ranks)

    def take(self, *texts: str, rank: int = 0) -> list[str]:
        kept = self.steps.take(rank, [text.encode() for text in texts])
        return [line.decode() for line in kept]

    def all(self) -> list[dict[str, Any]]:
        self.steps.flush(all_of_it=True)
        return self.lines


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGVTALRM)
    yield
    signal.signal(signal.SIGVTALRM, before)


def test_sdk_lines_are_taken_out_of_the_log() -> None:
    written = Written()
    kept = written.take("before", '::mooring:: {"step": 3, "examples": 10, "loss": 1.5}', "after")
    assert kept == ["before", "after"]
    assert written.all() == [
        {"r": 0, "step": 3, "examples": 10, "loss": 1.5, "total": None, "n": 1}
    ]


@pytest.mark.parametrize(
    ("kind", "said"), [("variables", [{"name": "table"}]), ("program", {"trait": "keras-3"})]
)
def test_what_is_said_of_the_program_is_no_step(kind: str, said: object) -> None:
    written: list[dict[str, Any]] = []
    told: list[tuple[str, dict[str, Any]]] = []

    def tell(kind: str, fields: dict[str, Any]) -> None:
        told.append((kind, fields))

    steps = Steps(lambda fields, t: written.append(fields), None, 7, 1, tell)
    line = f'a::mooring:: {json.dumps({kind: said})}b::mooring:: {{"step": 1}}'
    assert steps.take(0, [line.encode()]) == [b"a", b"b"]
    steps.flush(all_of_it=True)
    assert told == [(kind, {"r": 0, kind: said})]
    assert [found["step"] for found in written] == [1]


@pytest.mark.parametrize(
    ("line", "kept", "steps"),
    [
        ('no newline::mooring:: {"step": 1}', ["no newline"], [1]),
        ('::mooring:: {"step": 1}and on', ["and on"], [1]),
        ('half ::mooring:: {"step": 1} rest', ["half ", " rest"], [1]),
        ('::mooring:: {"step": 1}::mooring:: {"step": 2}', [], [1, 2]),
        ('a::mooring:: {"step": 1}b::mooring:: {"step": 2}c', ["a", "b", "c"], [1, 2]),
        ('::mooring:: {"st::mooring:: {"step": 2}', ['::mooring:: {"st'], [2]),
        ('é::mooring:: {"step": 1, "note": "::mooring:: {}"}ü', ["é", "ü"], [1]),
        ('::mooring::  {"step": 1} \t', [], [1]),
    ],
)
def test_marks_count_wherever_they_stand(line: str, kept: list[str], steps: list[int]) -> None:
    written = Written()
    assert written.take(line) == kept
    assert [found["step"] for found in written.all()] == steps


@pytest.mark.parametrize(
    "line",
    [
        "::mooring:: not json",
        "::mooring:: [1]",
        "::mooring::",
        "::mooring:: 1 ::mooring:: 2",
        "::mooring:: " + '{"step":[' * 5000,
    ],
)
def test_what_only_looks_like_a_report_stays_in_the_log(line: str) -> None:
    written = Written()
    assert written.take(line) == [line]
    assert written.all() == []


@pytest.mark.parametrize(
    ("value", "loss"),
    [("NaN", None), ("1e400", None), ('"0.25"', 0.25), ("true", None), ("[]", None), ("2", 2.0)],
)
def test_only_finite_numbers_are_numbers(value: str, loss: float | None) -> None:
    written = Written()
    written.take(f'::mooring:: {{"step": 1, "loss": {value}}}')
    assert written.all()[0]["loss"] == loss


@pytest.mark.parametrize(
    ("line", "step", "examples", "loss"),
    [
        ("step 1,200 loss=0.5 (64 examples)", 1200, 64, 0.5),
        ("step 12 loss=nan (x examples)", None, None, None),
        ("step 12 loss=1e-3 (64 examples)", 12, 64, 0.001),
    ],
)
def test_a_pattern_with_named_groups(
    line: str, step: int | None, examples: int | None, loss: float | None
) -> None:
    written = Written(r"step (?P<step>[\d,]+) loss=(?P<loss>[\d.e+-]+) \((?P<examples>\d+) ex")
    assert written.take(line) == [line]
    if step is None:
        assert written.all() == []
    else:
        found = written.all()[0]
        assert (found["step"], found["examples"], found["loss"]) == (step, examples, loss)


def test_a_pattern_without_groups_counts() -> None:
    written = Written("done")
    written.take("done", "not yet", "done again")
    assert sum(line["n"] for line in written.all()) == 2


def test_examples_follow_from_the_steps() -> None:
    """Reports at steps 100, 200, 300, then a restart at 50: 1 + 100 + 100 + 1 steps of 8."""
    written = Written(r"step (?P<step>\d+)", per_step=8)
    written.take("step 100", "step 200", "step 300", "step 50")
    assert sum(line["examples"] for line in written.all()) == 8 * (1 + 100 + 100 + 1)


def test_the_first_report_of_each_rank_is_written_by_itself() -> None:
    written = Written(ranks=2)
    reports = [f'::mooring:: {{"step": {step}, "loss": {9 - step}}}' for step in (1, 2, 3)]
    for rank in (0, 1):
        written.take(*reports, rank=rank)
    assert [(line["r"], line["loss"], line["n"]) for line in written.all()] == [
        (0, 8.0, 1),
        (1, 8.0, 1),
        (0, 6.0, 2),
        (1, 6.0, 2),
    ]


def test_so_is_the_first_loss_where_it_comes_later() -> None:
    written = Written()
    written.take('::mooring:: {"step": 1}', '::mooring:: {"step": 2}')
    written.take('::mooring:: {"step": 3, "loss": 5}', '::mooring:: {"step": 4, "loss": 4}')
    assert [(line["step"], line["loss"], line["n"]) for line in written.all()] == [
        (1, None, 1),
        (3, 5.0, 2),
        (4, 4.0, 1),
    ]


def test_reports_in_a_burst_become_one_line_with_sums() -> None:
    written = Written()
    written.take('::mooring:: {"step": 1, "examples": 5, "loss": 9.0}')
    written.steps.flush()
    for step in range(2, 102):
        written.take(f'::mooring:: {{"step": {step}, "examples": 5}}')
        written.steps.flush()
    lines = written.all()
    assert len(lines) <= 3
    assert sum(line["n"] for line in lines) == 101
    assert sum(line["examples"] for line in lines) == 505
    assert lines[-1]["step"] == 101


def test_the_rate_holds_for_all_ranks_together() -> None:
    ranks = 8
    written = Written(ranks=ranks)
    for rank in range(ranks):
        written.take('::mooring:: {"step": 1}', rank=rank)
        written.steps.flush()
        written.take('::mooring:: {"step": 2}', rank=rank)
    due = written.steps.flush()
    assert due is not None
    assert written.steps._interval_s == ranks / LINES_PER_SECOND
    assert len(written.lines) == ranks


def test_a_pattern_that_takes_for_ever_is_given_up() -> None:
    written = Written(r"(a+)+$")
    line = "a" * 60 + "b"
    assert written.take(line) == [line]
    assert written.steps.gave_up
    assert written.take("aaa") == ["aaa"]
    assert written.all() == []
