"""How many lines are shown of members that print much, and of those that print little."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from mooring.cli.member_lines import PIPE, TERMINAL, ManyLines, MemberLines, Pace
from mooring.record import RunRecord, create_run
from mooring.record.logs import read_log
from mooring.report.lines import ShownLine

MEMBERS = ("worker-0", "worker-1", "worker-2")
ALONE = dict.fromkeys(MEMBERS, 1)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    return create_run("job", directory=None, virtual_nodes=0, source="", version="0")


def write(run: RunRecord, member: str, count: int, text: str = "line", stream: str = "out") -> None:
    with run.log_file(member).open("a") as file:
        for number in range(count):
            file.write(f"2026-01-01T00:00:00.000000Z {stream} 0 {text} {number}\n")


def shown(lines: ManyLines | None, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    if lines is not None:
        console.print(lines, end="", crop=False, soft_wrap=True)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


@pytest.mark.parametrize(("terminal", "pace"), [(True, TERMINAL), (False, PIPE)])
def test_who_prints_little_is_heard_beside_a_flood(
    run: RunRecord, terminal: bool, pace: Pace
) -> None:
    count = 2 * pace.burst
    write(run, "worker-0", count)
    write(run, "worker-1", 3, "no data", "err")
    lines = shown(MemberLines(run, terminal=terminal).read(MEMBERS, ALONE))
    quiet = [line for line in lines if line.startswith("worker-1")]
    assert quiet == [f"worker-1 ! no data {number}" for number in range(3)]
    flood = [line for line in lines if line.startswith("worker-0")]
    assert flood[-1] == f"worker-0 │ line {count - 1}"
    [note] = [line for line in lines if "not shown, all are in `moor logs " in line]
    left_out = re.match(r"… ([\d,]+) lines", note)
    assert left_out is not None
    assert int(left_out[1].replace(",", "")) + len(flood) == count
    assert len(flood) < pace.burst


def test_after_a_flood_nothing_is_shown_until_there_is_room_for_some(run: RunRecord) -> None:
    lines = MemberLines(run, terminal=True)
    write(run, "worker-0", 2 * TERMINAL.burst)
    assert lines.read(MEMBERS, ALONE) is not None
    write(run, "worker-0", 100, "more")
    assert lines.read(MEMBERS, ALONE) is None
    # At the end some of them are shown all the same.
    last = shown(lines.read(MEMBERS, ALONE, last=True))
    assert last[-1] == "worker-0 │ more 99"
    assert 20 < len(last) < 100


def test_lines_shown_just_before_are_known(run: RunRecord) -> None:
    lines = MemberLines(run, terminal=False)
    write(run, "worker-0", 3)
    words = list(read_log(run.log_file("worker-0"), "worker-0"))
    assert not lines.showed(words)
    lines.read(MEMBERS, ALONE)
    assert lines.showed(words)
    # Further up than anybody looks.
    write(run, "worker-1", 200)
    lines.read(MEMBERS, ALONE)
    assert not lines.showed(words)


def test_members_of_several_processes_say_which_one(run: RunRecord) -> None:
    stamp = "2026-01-01T00:00:00.000000Z"
    for member in ("worker-0", "worker-1"):
        text = "".join(f"{stamp} out {rank} up\n" for rank in range(2))
        run.log_file(member).write_text(text)
    with run.log_file("worker-1").open("a") as file:
        file.write(f"{stamp} err 1 no data\n")
    processes = {"worker-0": 2, "worker-1": 2}
    lines = MemberLines(run, terminal=True)
    assert shown(lines.read(list(processes), processes, last=True)) == [
        "worker-*   │ up",
        "worker-1:1 ! no data",
    ]


@pytest.mark.parametrize("width", [30, 60, 80])
def test_a_terminal_cuts_lines_at_its_width(width: int) -> None:
    wide = [ShownLine("模型" * 60, "out", {"worker-0": 3}), ShownLine("", "err", {"worker-1": 1})]
    cut = shown(ManyLines(wide, MEMBERS, cut=True), width)
    assert cut[0].endswith("… (×3)")
    assert Console(width=200).measure(cut[0]).maximum <= width
    assert cut[1] == "worker-1 !"
    [whole, _] = shown(ManyLines(wide, MEMBERS, cut=False), width)
    assert whole == f"worker-0 │ {'模型' * 60} (×3)"
