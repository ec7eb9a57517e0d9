"""What launchers and timelines say of variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.model.errors import BadInput
from mooring.variables.from_run import parts_of
from mooring.variables.from_timeline import read_timeline
from mooring.wire import UnreadableRecord, read_record
from mooring.wire.members import Variables


def told(epoch: int, *variables: object) -> Variables:
    document = {"t": 1.0, "kind": "variables", "epoch": epoch, "variables": list(variables)}
    record = read_record(document)
    assert isinstance(record, Variables)
    return record


def test_the_last_start_counts_and_lookups_are_joined() -> None:
    old = {"name": "gone", "shape": [3], "bytes": 12, "server": 0, "part": 0}
    first = {"name": "table", "shape": [5, 2], "bytes": 40, "server": 0, "part": 0}
    second = {"name": "table", "shape": [4, 2], "bytes": 32, "server": 1, "part": 1}
    lines = [
        told(0, old),
        told(1, first),
        told(1, second),
        told(1, {"name": "table", "whole": True}),
    ]
    parts = parts_of(lines)
    assert [(part.variable, part.rows, part.server, part.part) for part in parts] == [
        ("table", 5, 0, 0),
        ("table", 4, 1, 1),
    ]
    assert all(part.whole and part.looked_up for part in parts)


def test_of_several_functions_that_use_a_table_the_worst_counts() -> None:
    table = {"name": "table", "shape": [5, 2], "bytes": 40, "server": 0, "part": 0}
    trained = {"name": "table", "whole": False, "written": "whole", "optimizer": "keras-adam"}
    judged = {"name": "table", "whole": True, "layer": "keras"}
    [part] = parts_of([told(0, table), told(0, trained), told(0, judged)])
    assert (part.whole, part.written_whole) == (True, True)
    assert (part.keras_layer, part.keras_adam) == (True, True)
    [part] = parts_of([told(0, table), told(0, {"name": "table", "whole": False})])
    assert (part.looked_up, part.whole, part.written_whole) == (True, False, False)


def test_nonsense_is_passed_over() -> None:
    assert parts_of([told(0, 7, {"name": 3}, {"name": "a", "shape": "x"}, {"shape": [1]})]) == []
    with pytest.raises(UnreadableRecord, match="variables"):
        read_record({"t": 1, "kind": "variables", "variables": "none"})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": []}', '{"traceEvents": [1]}'])
def test_what_is_no_timeline_of_servers_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "timeline.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"timeline"):
        read_timeline(path)


def _trace(**changed: object) -> dict[str, object]:
    device = {"name": "process_name", "pid": 1, "args": {"name": "/job:ps/task:0/device:CPU:0"}}
    variable = {"ph": "X", "pid": 1, "name": "VariableV2", "args": {"name": "w"}}
    return {"traceEvents": [device, {**variable, **changed}]}


_BYTES = "requested_bytes: "
HOSTILE_TIMELINES = {
    "nothing": b"",
    "no JSON": b"{",
    "no text": b"\xff\xfe\x00",
    "nested": b"[" * 100_000,
    "nested mappings": b'{"a":' * 100_000,
    "a list": b"[]",
    "a number": b"7",
    "events are null": b'{"traceEvents": null}',
    "events are a number": b'{"traceEvents": 7}',
    "events are a text": b'{"traceEvents": "abc"}',
    "events of other kinds": b'{"traceEvents": [null, 1, "a", [], {}]}',
    "a process id that is a mapping": json.dumps(_trace(pid={"a": []})).encode(),
    "a process id that is a list": json.dumps(_trace(pid=[1])).encode(),
    "arguments that are a list": json.dumps(_trace(args=[1])).encode(),
    "a name that is a mapping": json.dumps(_trace(name={}, args={"name": {}})).encode(),
    "a number of 5,000 digits": b'{"traceEvents": [{"pid": ' + b"9" * 5000 + b"}]}",
    "NaN": b'{"traceEvents": [{"pid": NaN, "args": {"snapshot": NaN}}]}',
    "a server of 5,000 digits": json.dumps(
        {
            "traceEvents": [
                {"name": "process_name", "pid": 1, "args": {"name": f"/job:ps/task:{'9' * 5000}/"}}
            ]
        }
    ).encode(),
    "bytes of 5,000 digits": json.dumps(
        _trace(
            args={"name": "w", "snapshot": {"tensor_description": "requested_bytes: " + "9" * 5000}}
        )
    ).encode(),
}


@pytest.mark.parametrize("data", HOSTILE_TIMELINES.values(), ids=HOSTILE_TIMELINES)
def test_a_hostile_timeline_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=r"timeline|Chrome"):
        read_timeline(path)
