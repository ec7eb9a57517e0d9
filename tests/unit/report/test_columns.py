"""Tables at the width of a terminal: no cell is cut, and what must be seen is seen."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from mooring.report.columns import Column, Columns, fit

WORDS = st.text(alphabet="abcdefgh-09", min_size=1, max_size=14)


def rendered(table: Columns, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


def names(blocks: list[list[Column]]) -> list[list[str]]:
    return [[column.name for column in block] for block in blocks]


MEMBERS = Columns(
    [
        Column("member", [Text("worker-0", style="bold"), "worker-10"]),
        Column("state", ["running", "failed"]),
        Column("steps", ["1,200", "7"], right=True, gives_way=1),
        Column("node", ["node-0", "node-1"], gives_way=2),
    ]
)


def test_the_least_important_column_gives_way() -> None:
    assert rendered(MEMBERS, 60) == [
        "member     state    steps  node",
        "worker-0   running  1,200  node-0",
        "worker-10  failed       7  node-1",
    ]
    assert names(fit(MEMBERS.columns, 32)) == [["member", "state", "steps"]]
    assert names(fit(MEMBERS.columns, 20)) == [["member", "state"]]


def test_columns_without_room_go_below_with_the_first_column_again() -> None:
    table = [
        Column("member", ["worker-0"]),
        Column("CPU s", ["1.0"], group=1),
        Column("CPU %", ["99"], group=1),
        Column("in", ["1.0 MiB"], group=2),
        Column("out", ["2.0 MiB"], group=2),
    ]
    assert names(fit(table, 80)) == [["member", "CPU s", "CPU %", "in", "out"]]
    assert names(fit(table, 31)) == [["member", "CPU s", "CPU %"], ["member", "in", "out"]]
    assert names(fit(table, 20)) == [
        ["member", "CPU s"],
        ["member", "CPU %"],
        ["member", "in"],
        ["member", "out"],
    ]


def test_a_sentence_stands_beside_or_below_its_row() -> None:
    rows = [("job-1", "Failed", "worker-0 exited with code 3"), ("job-2", "Running", "")]
    table = Columns.of_rows(("run", "phase"), rows, detail="reason")
    assert rendered(table, 60) == [
        "run    phase    reason",
        "job-1  Failed   worker-0 exited with code 3",
        "job-2  Running",
    ]
    assert rendered(table, 24) == [
        "run    phase",
        "job-1  Failed",
        "    worker-0 exited with",
        "    code 3",
        "job-2  Running",
    ]
    long = Columns.of_rows(("run",), [("a", "word " * 12)], detail="reason")
    assert rendered(long, 40) == [
        "run  reason",
        "a    word word word word word word word",
        "     word word word word word",
    ]


@given(
    st.integers(1, 6).flatmap(
        lambda count: st.lists(
            st.lists(WORDS, min_size=count, max_size=count), min_size=1, max_size=4
        )
    ),
    st.integers(30, 120),
)
def test_no_cell_is_cut_and_no_line_is_too_wide(rows: list[list[str]], width: int) -> None:
    heads = [f"c{index}" for index in range(len(rows[0]))]
    lines = rendered(Columns.of_rows(heads, rows), width)
    assert all(len(line) <= width for line in lines)
    words = [word for line in lines for word in line.split()]
    for row in rows:
        for cell in row:
            assert cell in words
