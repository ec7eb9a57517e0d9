"""The live view at the size of a small terminal, whatever there is to say."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from mooring.model.status import MemberState, Phase
from mooring.record import create_run
from mooring.report import text
from mooring.report.view import MemberView, RunView
from mooring.wire.members import Step


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunView:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    run = create_run("job", directory=None, virtual_nodes=0, source="", version="0")
    view = RunView(run)
    view.phase = Phase.RUNNING
    for index in range(12):
        member = MemberView(f"fifteen-letters-{index}", "fifteen-letters")
        member.state, member.node, member.cpus = MemberState.RUNNING, "node-0", "0-127"
        member.apply(Step(1.0, step=100_000, total=200_000, loss=0.5))
        view.members[member.name] = member
    return view


def lines(view: RunView, width: int, rows: int = 10) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(text.live(view, 4000.0, 300.0, rows))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_fits(view: RunView, width: int) -> None:
    shown = lines(view, width)
    assert max(map(len, shown)) <= width
    assert len(shown) <= 10 + 6
    assert "…" not in "".join(shown)
    assert "100,000/200,000 steps" in shown[1] and "about 5 min left" in shown[1]
    assert [line.split()[:2] for line in shown[-12:]] == [
        [name, "node-0" if width == 120 else "running"] for name in view.members
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_standstill_leaves_room_for_the_table(view: RunView, width: int) -> None:
    view.stall = "no step for 60 s: worker-3 has not arrived"
    view.stall_processes = tuple(f"{name}: wait (train.py:8) ← " * 4 for name in view.members)
    shown = lines(view, width)
    assert max(map(len, shown)) <= width
    assert len(shown) <= 10 + 6
    assert view.stall in shown
    assert "  … 7 more" in shown
    assert any(line.startswith("fifteen-letters-0 ") for line in shown)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_who_is_waited_for_is_said_in_full(
    view: RunView, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tuple(view.members)
    monkeypatch.setattr(RunView, "waits_for", names)
    said = f"work done, waiting for {text.listed(names)} to end"
    assert said in " ".join(" ".join(lines(view, width)).split())
