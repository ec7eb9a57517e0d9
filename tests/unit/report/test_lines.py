"""Repeats and the same line of several members are shown once, in each member's own order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.record.logs import LogLine
from mooring.report.lines import Collapse, ShownLine, label

MEMBERS = ("ps-0", "worker-0", "worker-1", "worker-2")


def lines(*pairs: tuple[str, str]) -> list[LogLine]:
    return [LogLine("", member, text) for member, text in pairs]


def told(shown: list[ShownLine]) -> list[tuple[str, str]]:
    return [(",".join(sorted(line.counts)), line.text + line.suffix) for line in shown]


def test_repeats_in_a_row_are_counted() -> None:
    shown = Collapse().add(lines(*[("worker-0", "wait")] * 12, ("worker-0", "go")), 0)
    assert told(shown) == [("worker-0", "wait (×12)"), ("worker-0", "go")]


def test_the_same_line_of_several_members_is_one() -> None:
    same = [(m, text) for m in MEMBERS[1:] for text in ("import", "step 1", "step 1")]
    shown = Collapse().add(lines(*same), 0)
    everybody = "worker-0,worker-1,worker-2"
    assert told(shown) == [(everybody, "import"), (everybody, "step 1 (×2)")]


def test_the_order_of_a_members_own_lines_stays() -> None:
    pairs = [("worker-0", "a"), ("worker-0", "b"), ("worker-1", "b"), ("worker-1", "a")]
    shown = Collapse().add(lines(*pairs), 0)
    assert told(shown) == [("worker-0", "a"), ("worker-0,worker-1", "b"), ("worker-1", "a")]


def test_repeats_of_what_was_shown_before_are_told_later() -> None:
    collapse = Collapse()
    assert told(collapse.add(lines(("worker-0", "wait")), 0)) == [("worker-0", "wait")]
    assert collapse.add(lines(*[("worker-0", "wait")] * 3), 1) == []
    assert told(collapse.add(lines(("worker-0", "go")), 2)) == [
        ("worker-0", "wait (×3 more)"),
        ("worker-0", "go"),
    ]
    assert collapse.add(lines(("worker-0", "go")), 3) == []
    assert told(collapse.add([], 20)) == [("worker-0", "go (×1 more)")]
    assert collapse.add(lines(("worker-0", "go")), 21) == []
    assert told(collapse.rest()) == [("worker-0", "go (×1 more)")]


def test_of_a_progress_bar_the_newest_line_is_shown_and_the_last_one() -> None:
    bar = [("worker-0", f"{percent:3d}%|███   | {percent}/100") for percent in range(100)]
    collapse = Collapse()
    assert told(collapse.add(lines(*bar[:3]), 0)) == [bar[2]]
    assert collapse.add(lines(*bar[3:5]), 1) == []
    assert told(collapse.add(lines(*bar[5:9]), 6)) == [bar[8]]
    done = ("worker-0", "done")
    assert told(collapse.add(lines(*bar[9:], done), 7)) == [bar[-1], done]


def test_out_and_err_are_two_lines() -> None:
    both = [LogLine("", "worker-0", "x", "out"), LogLine("", "worker-0", "x", "err")]
    assert [line.stream for line in Collapse().add(both, 0)] == ["out", "err"]


def test_labels_say_whose_line_it_is() -> None:
    assert label(["worker-1"], MEMBERS) == ("worker-1", "")
    assert label(["worker-0", "worker-1", "worker-2"], MEMBERS) == ("worker-*", "")
    assert label(["worker-0", "worker-2"], MEMBERS) == ("worker-0", " (also worker-2)")
    assert label(list(MEMBERS), MEMBERS) == ("all", "")
    many = [f"worker-{index}" for index in range(9)]
    assert label(many[:6], many) == ("worker-0", " (and 5 others)")


@given(st.lists(st.lists(st.tuples(st.sampled_from(MEMBERS), st.sampled_from("abc")), max_size=12)))
def test_no_line_is_lost_or_out_of_its_members_order(batches: list[list[tuple[str, str]]]) -> None:
    collapse = Collapse()
    shown = [
        line for at, batch in enumerate(batches) for line in collapse.add(lines(*batch), 4.0 * at)
    ]
    shown += collapse.rest()
    for member in MEMBERS:
        printed = [text for batch in batches for name, text in batch if name == member]
        seen = [line.text for line in shown for _ in range(line.counts.get(member, 0))]
        assert seen == printed
