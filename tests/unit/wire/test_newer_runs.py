"""Runs of a newer Mooring: refused with a clear error, never taken for empty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.backends.local.clean import clean_run
from mooring.backends.local.machine import this_machine
from mooring.backends.local.nodes import local_snapshot
from mooring.backends.local.occupancy import live_runs
from mooring.model.errors import BadInput
from mooring.record import RunRecord, create_run
from mooring.record.plan_file import read_plan
from mooring.report.finish import read_report
from mooring.report.listing import line_of

PLAN = {"version": 99, "placed": {"worker-0": "somewhere"}}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    """It holds something: its process is this one."""
    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    return create_run("job", directory=None, virtual_nodes=0, source="", version="99")


def test_a_newer_plan_is_not_taken_for_free_room(run: RunRecord) -> None:
    run.plan_file.write_text(json.dumps(PLAN))
    with pytest.raises(BadInput, match=r"plan\.json: version: found 99.*; accepted: up to 1"):
        read_plan(run.plan_file)
    with pytest.raises(BadInput, match="newer Mooring"):
        local_snapshot(0, None)
    [live] = live_runs()
    [holding] = live.holdings
    assert holding.slot.exclusive
    assert set(holding.slot.cpus) == {cpu.id for cpu in this_machine().cpus}
    assert holding.resources == this_machine().capacity


@pytest.mark.parametrize("version", [None, 1, "99", 0.5, True])
def test_a_plan_of_now_or_before_is_read(run: RunRecord, version: object) -> None:
    plan = {"members": [], "notes": ["a note"]}
    run.plan_file.write_text(json.dumps(plan if version is None else {**plan, "version": version}))
    read = read_plan(run.plan_file)
    assert read is not None
    assert read.notes == ("a note",)


def test_a_newer_journal_has_no_report_and_one_line_that_says_why(run: RunRecord) -> None:
    line = {"t": 1.0, "kind": "phase", "v": 99, "phase": {"of": "the future"}}
    run.events_file.write_text(json.dumps(line) + "\n")
    with pytest.raises(BadInput, match=r"events\.jsonl: v: found 99"):
        read_report(run)
    listed = line_of(run)
    assert (listed.phase, listed.ended) == ("Unknown", False)
    assert "newer Mooring" in listed.reason


def test_cleaning_leaves_a_newer_journal_alone(run: RunRecord) -> None:
    written = json.dumps({"t": 1.0, "kind": "phase", "v": 99}) + "\n"
    run.events_file.write_text(written)
    clean_run(run)
    assert run.events_file.read_text() == written
