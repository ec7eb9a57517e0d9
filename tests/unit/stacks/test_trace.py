"""Documents of py-spy to letters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.stacks.categories import LETTERS, Category
from mooring.stacks.classify import Frame
from mooring.stacks.trace import Span, read_spans, summarise

SAVE = "/venv/lib/python3.11/site-packages/torch/serialization.py"


def event(kind: str, name: str, at_s: float, file: str = "/me/train.py", tid: int = 1) -> Any:
    args = {"filename": file, "line": 3}
    return {"args": args, "cat": "py-spy", "name": name, "ph": kind, "pid": 7, "tid": tid,
            "ts": round(at_s * 1e6)}  # fmt: skip


MAIN = "thread (7): MainThread"
EVENTS = [
    event("B", MAIN, 0.4, ""),
    event("B", "train", 0.4),
    event("B", "save", 1.0, SAVE),
    # Another thread: not looked at.
    event("B", "thread (9): pool", 1.1, "", tid=2),
    event("B", "save", 1.1, SAVE, tid=2),
    event("E", "save", 1.4, SAVE),
    event("E", "train", 2.0),
    event("E", MAIN, 2.0, ""),
]


def test_spans_of_the_main_thread() -> None:
    spans = read_spans(json.dumps(EVENTS), 7)
    assert [(one.from_s, one.to_s, [frame.name for frame in one.stack]) for one in spans] == [
        (0.4, 1.0, ["train"]),
        (1.0, 1.4, ["train", "save"]),
        (1.4, 2.0, ["train"]),
    ]


def test_letters_at_even_distances() -> None:
    # 1.6 s at 10 looks a second, from the first span on: 0.6 s compute, 0.4 s save, 0.6 s compute.
    summary = summarise(read_spans(json.dumps(EVENTS), 7), 10)
    assert summary.seen == "cccccckkkkcccccc"
    assert summary.places == {Category.CHECKPOINT: {"train (train.py:3)": 4}}


def test_no_more_letters_than_looks() -> None:
    # 8 looks in 1.6 s, because the machine was busy: one letter for each 0.2 s.
    summary = summarise(read_spans(json.dumps(EVENTS), 7), 10, looks=8)
    assert (summary.hz, summary.seen) == (pytest.approx(5.0), "ccckkccc")
    assert summarise([], 10, looks=8).seen == ""


def test_the_line_is_asked_for_where_the_program_is() -> None:
    spans = [Span(0, 1, (Frame("train", "/me/train.py", 12),))]
    summary = summarise(spans, 2, lambda file, line: "print(1)" if line == 12 else "")
    assert summary.seen == "ll"


@pytest.mark.parametrize("text", ["", "{}", "3", "[", '"x"'])
def test_no_such_document(text: str) -> None:
    with pytest.raises(ValueError):
        read_spans(text, 7)


def test_no_main_thread_is_nothing_seen() -> None:
    assert read_spans(json.dumps(EVENTS), 8) == []
    assert summarise([], 10).seen == ""


junk = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(junk | st.sampled_from(EVENTS), max_size=12))
def test_any_list_is_read(events: list[Any]) -> None:
    spans = read_spans(json.dumps(events), 7)
    assert set(summarise(spans, 10).seen) <= set(LETTERS.values())
