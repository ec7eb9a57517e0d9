"""What other tools are given: a table, Prometheus' text format, TensorBoard's event files."""

from __future__ import annotations

import csv
import io
import json
import math
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mooring.record import RunRecord, create_run
from mooring.report.export_csv import COLUMNS, to_csv
from mooring.report.export_prometheus import to_prometheus
from mooring.report.export_tensorboard import masked_crc32c, record, write_tensorboard
from mooring.report.figures import Report
from mooring.report.finish import read_report
from mooring.report.series import MemberSeries, read_series

MEBIBYTE = 1 << 20


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    run = create_run("job", directory=None, virtual_nodes=0, source="", version="0")
    plan = {
        "preset": "spread",
        "members": [
            {
                "member": f"worker-{index}",
                "role": "worker",
                "node": "n",
                "cpus": [0],
                "exclusive": False,
                "gpus": [],
            }
            for index in (0, 1)
        ],
    }
    run.plan_file.write_text(json.dumps(plan))
    events = [
        {"t": 100.0, "kind": "phase", "phase": "Starting"},
        {"t": 110.0, "kind": "phase", "phase": "Succeeded", "reason": "done"},
    ]
    run.events_file.write_text("".join(f"{json.dumps(line)}\n" for line in events))
    lines = [
        {"t": 101.0, "kind": "step", "step": 1, "examples": 10, "loss": 2.0},
        {"t": 102.0, "kind": "step", "step": 2, "examples": 10, "loss": 1.5},
        {"t": 102.5, "kind": "step", "step": 3, "examples": 10, "loss": float("nan")},
        *(
            {
                "t": 101.0 + second,
                "kind": "sample",
                "cpu_s": 0.5 * second,
                "rss_bytes": 64 * MEBIBYTE,
                "rx_bytes": 1_000_000 * second,
                "tx_bytes": 0,
            }
            for second in range(3)
        ),
    ]
    run.sample_file("worker-0").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return run


def read(run: RunRecord) -> tuple[Report, list[MemberSeries]]:
    figures = read_report(run)
    return figures, read_series(run, [member.member for member in figures.members])


def test_the_table_has_a_row_for_each_report_and_sample(run: RunRecord) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(*read(run)))))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 6 and {row["member"] for row in rows} == {"worker-0"}
    assert [row["elapsed_s"] for row in rows] == ["1.0", "1.0", "2.0", "2.0", "2.5", "3.0"]
    steps = [row for row in rows if row["step"]]
    assert [(r["step"], r["examples"], r["loss"]) for r in steps] == [
        ("1", "10", "2.0"),
        ("2", "20", "1.5"),
        ("3", "30", ""),
    ]
    assert [row["examples_per_s"] for row in steps] == ["", "10.0", "20.0"]
    uses = [row for row in rows if row["cpu_s"]]
    assert [row["cpu_percent"] for row in uses] == ["", "50.0", "50.0"]
    assert {row["memory_bytes"] for row in uses} == {str(64 * MEBIBYTE)}
    assert rows[0]["time"] == "1970-01-01T00:01:41.000+00:00"


def test_prometheus_reads_every_figure(run: RunRecord) -> None:
    figures = replace(read_report(run), job='we"ird\\\n')
    families = {one.name: one for one in text_string_to_metric_families(to_prometheus(figures))}
    phases = {s.labels["phase"]: s.value for s in families["mooring_run_phase"].samples}
    assert [phase for phase, value in phases.items() if value] == ["Succeeded"]
    [steps] = families["mooring_run_steps"].samples
    assert (steps.value, steps.labels["job"]) == (3, 'we"ird\\\n')
    assert families["mooring_run_steps"].type == "counter"
    cpu = families["mooring_member_cpu_seconds"].samples
    assert [(s.labels["member"], s.value) for s in cpu] == [("worker-0", 1.0), ("worker-1", 0.0)]
    [peak] = families["mooring_member_peak_memory_bytes"].samples
    assert (peak.labels["member"], peak.value) == ("worker-0", 64 * MEBIBYTE)
    assert "mooring_member_exit_code" not in families
    for loss in (math.nan, math.inf, -math.inf):
        page = to_prometheus(replace(figures, last_loss=loss))
        [one] = [f for f in text_string_to_metric_families(page) if f.name == "mooring_run_loss"]
        assert repr(one.samples[0].value) == repr(loss)


def test_the_checksum_is_castagnolis() -> None:
    # crc32c("123456789") = 0xe3069283, as every table of checksums says
    crc = 0xE3069283
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@given(st.binary(max_size=300))
def test_a_record_can_be_cut_out_of_a_file_again(data: bytes) -> None:
    written = record(data)
    (length,) = struct.unpack("<Q", written[:8])
    assert (length, written[12 : 12 + length], len(written)) == (len(data), data, len(data) + 16)


def test_members_without_samples_get_no_event_file(run: RunRecord, tmp_path: Path) -> None:
    [path] = write_tensorboard(tmp_path / "board", *read(run))
    assert path.parent == tmp_path / "board" / "worker-0"
    assert ".tfevents." in path.name
    # the version, two losses, two rates; two rates of CPU, received and sent, three of memory
    assert path.read_bytes().count(b"brain.Event:2") == 1
    assert len(list(records(path.read_bytes()))) == 1 + 2 + 2 + 3 * 2 + 3


def records(data: bytes) -> list[bytes]:
    found = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        (checksum,) = struct.unpack("<I", data[12 + length : 16 + length])
        assert masked_crc32c(data[12 : 12 + length]) == checksum
        found.append(data[12 : 12 + length])
        data = data[16 + length :]
    return found
