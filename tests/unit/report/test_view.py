"""Figures from files: totals over restarts, rates without warm-up, truth about killed runs."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from mooring.cli.live import _progress_line
from mooring.record import RunRecord, create_run
from mooring.record.journal import JsonValue
from mooring.report import text
from mooring.report.charts import Curve, line_chart, round_up, thinned
from mooring.report.figures import Report, figures
from mooring.report.html import Remark, render_html
from mooring.report.view import RunView

MEMBERS = ("worker-0", "ps-0", "ps-1")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    run = create_run("job", directory=None, virtual_nodes=0, source="", version="0")
    members = [
        {
            "member": name,
            "role": name.split("-")[0],
            "index": 0,
            "node": "n",
            "cpus": [0],
            "exclusive": True,
            "cells": [0],
            "gpus": [],
            "resources": {"cpu_millis": 0, "memory_bytes": 0, "gpus": 0},
            "nodes": [],
        }
        for name in MEMBERS
    ]
    plan = {"members": members, "server_roles": ["ps"], "preset": "spread"}
    run.plan_file.write_text(json.dumps(plan))
    return run


def append_lines(path: Path, *lines: dict[str, JsonValue]) -> None:
    """As a Mooring of before records had versions wrote them."""
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def events(run: RunRecord, *lines: dict[str, JsonValue]) -> None:
    append_lines(run.events_file, *lines)


def samples(run: RunRecord, member: str, *lines: dict[str, JsonValue]) -> None:
    append_lines(run.sample_file(member), *({"epoch": 0, "attempt": 0, **one} for one in lines))


def report_of(run: RunRecord) -> Report:
    view = RunView(run)
    view.update()
    return figures(view)


def test_how_a_member_ended_is_a_word(run: RunRecord) -> None:
    said = "over its memory limit of 1 GiB"
    samples(run, "worker-0", {"t": 9.0, "kind": "exit", "code": 137, "reason": said})
    new = {"t": 9.0, "kind": "exit", "v": 2, "code": 1, "cause": "device-lost"}
    samples(run, "ps-0", new)  # type: ignore[arg-type]
    causes = {member.member: member.cause for member in report_of(run).members}
    assert causes == {"worker-0": "out-of-memory", "ps-0": "device-lost", "ps-1": None}


def test_totals_go_on_over_a_restart(run: RunRecord) -> None:
    samples(
        run,
        "worker-0",
        {"t": 1.0, "kind": "running"},
        {"t": 2.0, "kind": "sample", "cpu_s": 1.0, "rx_bytes": 10, "peers": {"ps-0": [5, 10]}},
        {"t": 3.0, "kind": "sample", "cpu_s": 2.0, "rx_bytes": 30, "peers": {"ps-0": [9, 30]}},
        # The second attempt counts from zero again: 2 + 0.5 s, 30 + 4 bytes.
        {"t": 5.0, "kind": "sample", "attempt": 1, "cpu_s": 0.5, "rx_bytes": 4},
        {
            "t": 6.0,
            "kind": "sample",
            "attempt": 1,
            "cpu_s": 0.7,
            "rx_bytes": 4,
            "peers": {"ps-0": [1, 2]},
        },
    )
    report = report_of(run)
    [member] = [member for member in report.members if member.member == "worker-0"]
    assert member.cpu_s == pytest.approx(2.7)
    assert member.received_bytes == 34
    assert [(f.peer, f.sent_bytes, f.received_bytes) for f in report.flows] == [("ps-0", 10, 32)]


def test_examples_per_second_leave_out_what_came_before_the_first_report(run: RunRecord) -> None:
    samples(
        run,
        "worker-0",
        {"t": 0.0, "kind": "running"},
        {"t": 10.0, "kind": "step", "r": 0, "step": 1, "examples": 100, "loss": 0.9},
        {"t": 11.0, "kind": "step", "r": 0, "step": 2, "examples": 100, "loss": 0.5},
        {"t": 12.0, "kind": "step", "r": 0, "step": 3, "examples": 100, "loss": 0.4},
    )
    report = report_of(run)
    # 200 examples between t = 10 and t = 12.
    assert report.examples_per_s == pytest.approx(100.0)
    assert (report.steps, report.examples) == (3, 300)
    assert (report.first_loss, report.last_loss) == (0.9, 0.4)


def test_local_ranks_step_together_but_their_examples_add_up(run: RunRecord) -> None:
    lines: list[dict[str, JsonValue]] = [
        {"t": float(step), "kind": "step", "r": rank, "examples": 10}
        for step in range(1, 5)
        for rank in (0, 1)
    ]
    samples(run, "worker-0", *lines)
    report = report_of(run)
    assert (report.steps, report.examples) == (4, 80)


def test_shares_of_servers(run: RunRecord) -> None:
    samples(run, "ps-0", {"t": 1.0, "kind": "sample", "rx_bytes": 60, "tx_bytes": 15})
    samples(run, "ps-1", {"t": 1.0, "kind": "sample", "rx_bytes": 20, "tx_bytes": 5})
    assert [(s.member, s.share) for s in report_of(run).servers] == [("ps-0", 0.75), ("ps-1", 0.25)]


def test_a_killed_run_is_lost_until_somebody_writes_its_end(run: RunRecord) -> None:
    dead = RunRecord(run.info.__class__(**{**run.info.__dict__, "pid": 2**22 + 1}), run.root)
    events(
        dead,
        {"t": 1.0, "kind": "phase", "phase": "Starting"},
        {"t": 2.0, "kind": "member", "member": "worker-0", "state": "running"},
    )
    samples(dead, "worker-0", {"t": 9.0, "kind": "sample", "cpu_s": 1.0})
    report = report_of(dead)
    assert (report.phase, report.wall_s) == ("Lost", 8.0)
    events(dead, {"t": 9.0, "kind": "phase", "phase": "Failed", "reason": "killed"})
    assert report_of(dead).phase == "Failed"
    assert {m.state for m in report_of(dead).members} == {"ended", "waiting"}


def test_the_html_report_shows_figures_and_escapes_what_members_said(run: RunRecord) -> None:
    events(
        run,
        {"t": 1.0, "kind": "phase", "phase": "Starting"},
        {"t": 5.0, "kind": "phase", "phase": "Failed", "reason": "<script>alert(1)</script>"},
    )
    samples(
        run,
        "worker-0",
        *(
            {"t": 1.0 + i, "kind": "sample", "cpu_s": 0.5 * i, "rx_bytes": 1000 * i}
            for i in range(5)
        ),
    )
    page = render_html(run, report_of(run))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == 2
    assert "worker-0" in page


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 1), (0.3, 0.5), (1, 1), (1.2, 2), (49, 50), (51, 100), (501, 1000)]
)
def test_axes_end_at_round_numbers(value: float, expected: float) -> None:
    assert round_up(value) == pytest.approx(expected)


def test_a_chart_has_a_curve_and_a_name_for_each(run: RunRecord) -> None:
    chart = line_chart("t", [Curve("a<b", [(0.0, 1.0), (1.0, 2.0)]), Curve("none", [])])
    assert chart.count("<polyline") == 1
    assert "a&lt;b" in chart


@pytest.mark.parametrize(
    ("amount", "written"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
)
def test_sizes(amount: int, written: str) -> None:
    assert text.size(amount) == written


@pytest.mark.parametrize(
    ("done", "sampled_s", "waits"),
    [
        # All steps done at 10 s; nothing since 2.5 s.
        (100, 12.5, ("worker-0",)),
        # Only just done.
        (100, 11.0, ()),
        # Steps are left: it is slow, not done.
        (99, 40.0, ()),
    ],
)
def test_work_that_is_done_is_waited_for(
    run: RunRecord, done: int, sampled_s: float, waits: tuple[str, ...]
) -> None:
    events(run, {"t": 0.0, "kind": "phase", "phase": "Running", "epoch": 0})
    events(run, *({"t": 0.0, "kind": "member", "member": m, "state": "running"} for m in MEMBERS))
    samples(
        run,
        "worker-0",
        {"t": 10.0, "kind": "step", "step": done, "total": 100, "examples": 8},
        {"t": sampled_s, "kind": "sample", "cpu_s": 1.0},
    )
    view = RunView(run)
    view.update()
    assert view.waits_for == waits
    said = "work done, waiting for worker-0 to end"
    assert (said in _drawn(text.live(view, 1.0))) is bool(waits)
    assert (said in _progress_line(view, None)) is bool(waits)


@pytest.mark.parametrize(("ended_s", "said"), [(14.0, False), (21.5, True)])
def test_the_report_says_how_long_the_end_took(run: RunRecord, ended_s: float, said: bool) -> None:
    """The last step was at 10 s."""
    events(run, {"t": 1.0, "kind": "phase", "phase": "Starting", "epoch": 0})
    samples(run, "worker-0", {"t": 10.0, "kind": "step", "step": 3, "total": 3})
    events(run, {"t": ended_s, "kind": "phase", "phase": "Succeeded", "epoch": 0})
    report = report_of(run)
    assert report.after_last_step_s == pytest.approx(ended_s - 10.0)
    assert ("11.5 s of it after the last step" in _drawn(text.report(report))) is said
    assert ("after the last step" in render_html(run, report)) is said


def test_what_could_not_be_seen_inside_stands_in_the_report(run: RunRecord) -> None:
    note: dict[str, JsonValue] = {"note": "could not look into Adam: no handle"}
    line: dict[str, JsonValue] = {"t": 1.0, "kind": "program", "program": note}
    samples(run, "worker-0", line, line, {"t": 1.0, "kind": "program", "program": "nonsense"})
    report = report_of(run)
    assert report.members[0].notes == ("could not look into Adam: no handle",)
    assert "worker-0: could not look into Adam: no handle" in _drawn(text.report(report))


def _drawn(what: RenderableType) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(what)
    drawn = console.file
    assert isinstance(drawn, io.StringIO)
    return drawn.getvalue()


def test_the_page_shows_the_loss_by_step_memory_findings_and_the_command(run: RunRecord) -> None:
    run.job_file.write_text(
        "spec:\n  command: [python, train.py, 'two words']\n"
        "  roles: {ps: {}, worker: {}, chief: {command: [lead]}}\n"
    )
    steps: list[dict[str, JsonValue]] = [
        {"t": 1.0 + i, "kind": "step", "step": 10 * i, "examples": 5, "loss": 3.0 - i}
        for i in range(1, 6)
    ]
    steps.append({"t": 7.0, "kind": "step", "step": 60, "loss": float("nan")})
    uses: list[dict[str, JsonValue]] = [
        {"t": 1.0 + i, "kind": "sample", "cpu_s": 0.5 * i, "rss_bytes": i << 20} for i in range(5)
    ]
    samples(run, "worker-0", *steps, *uses)
    remark = Remark("Too few <CPUs>", "it waits", ("cpu: 1",), "ask for two", "cpu-starved")
    page = render_html(run, report_of(run), [remark])
    titles = re.findall(r'aria-label="([^"]+)"', page)
    assert titles == ["loss by step", "examples/s", "CPU %", "memory, MiB"]
    assert "Too few &lt;CPUs&gt;" in page and "ask for two" in page and "cpu-starved" in page
    assert "<code>python train.py &#39;two words&#39;</code>" in page
    assert "<td>ps, worker</td>" in page and "<code>lead</code>" in page
    assert "Nothing was found" in render_html(run, report_of(run), [])
    assert "Findings" not in render_html(run, report_of(run))


def test_a_long_curve_is_thinned_and_a_negative_one_stays_in_the_picture() -> None:
    long = thinned([(float(x), float(x % 2)) for x in range(100_000)])
    assert len(long) <= 500 and {y for _, y in long} == {0.5}
    chart = line_chart("t", [Curve("a", [(0.0, -30.0), (1.0, 10.0)])])
    heights = [float(point.split(",")[1]) for point in re.findall(r"[\d.]+,[\d.]+", chart)]
    assert all(0 <= height <= 220 for height in heights)
    assert ">-50</text>" in chart


STALL: dict[str, JsonValue] = {
    "t": 50.0,
    "kind": "stall",
    "hang": True,
    "says": "hang: no step for 40 s",
    "file": "stacks-at-stall.txt",
    "processes": [{"member": "worker-0", "stack": ["wait (a.py:2)", "main (a.py:9)"]}],
}


def test_a_standstill_is_shown_while_it_lasts_and_kept(run: RunRecord) -> None:
    events(run, {"t": 0.0, "kind": "phase", "phase": "Running", "epoch": 0}, STALL)
    view = RunView(run)
    view.update()
    drawn = _drawn(text.live(view, 60.0))
    assert "hang: no step for 40 s" in drawn
    assert "worker-0: wait (a.py:2) ← main (a.py:9)" in drawn
    # Looked at again it is the same one.
    again: dict[str, JsonValue] = {**STALL, "says": "hang: no step for 80 s"}
    events(run, again, {"t": 99.0, "kind": "phase", "phase": "Failed", "epoch": 0})
    assert report_of(run).notes == (
        "hang: no step for 80 s; everybody's stacks: stacks-at-stall.txt",
    )


@pytest.mark.parametrize("hang", [True, False])
def test_a_long_evaluation_leaves_no_note(run: RunRecord, hang: bool) -> None:
    told: dict[str, JsonValue] = {**STALL, "hang": hang}
    over: dict[str, JsonValue] = {"t": 60.0, "kind": "stall", "over": True}
    events(run, {"t": 0.0, "kind": "phase", "phase": "Running", "epoch": 0}, told, over)
    view = RunView(run)
    view.update()
    assert view.stall == ""
    assert bool(report_of(run).notes) is hang


def test_a_speed_is_none_once_reports_are_long_overdue(run: RunRecord) -> None:
    steps: list[dict[str, JsonValue]] = [
        {"t": float(at), "kind": "step", "examples": 10} for at in range(1, 9)
    ]
    samples(run, "worker-0", *steps, {"t": 12.0, "kind": "sample", "cpu_s": 1.0})
    view = RunView(run)
    view.update()
    assert view.examples_per_s == pytest.approx(10.0)
    # 10 s and three of the usual pauses after the last report.
    samples(run, "worker-0", {"t": 22.0, "kind": "sample", "cpu_s": 1.0})
    view.update()
    assert view.examples_per_s == 0.0


def test_an_event_names_no_file_outside_the_run(run: RunRecord) -> None:
    """The folder may be somebody else's: a member's name is also that of its files."""
    outside = run.root.parent / "mine-0.jsonl"
    outside.write_text('{"t": 1, "kind": "step", "step": 7, "examples": 5}\n')
    name = "../../mine-0"
    assert run.sample_file(name).resolve() == outside
    events(run, {"t": 1.0, "kind": "member", "member": name, "state": "running"})
    view = RunView(run)
    view.update()
    assert set(view.members) == set(MEMBERS)
