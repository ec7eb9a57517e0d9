"""Variables of a TensorFlow `timeline.json`: what each of them sent and got in one step.

A timeline is a Chrome trace: processes are devices, events are operations with the names of their
inputs. An input that came from another device ends with `_S` and a number. With memory shown, every
tensor is an object whose snapshot says how many bytes it has. So what a server sends of a variable
is found by following the inputs of what was sent back to the variable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.model.errors import BadInput
from mooring.record.journal import JsonValue
from mooring.variables.facts import Facts, PartFacts

#: Digits are bounded: what is beyond is no server, no size and no amount.
_SERVER = re.compile(r"/job:ps/(?:replica:\d{1,9}/)?task:(\d{1,4})/")
_BYTES = re.compile(r"requested_bytes: (\d{1,18})(?!\d)")
_SIZE = re.compile(r"size: (\d{1,18})(?!\d)")
_FROM_AFAR = re.compile(r"_S\d{1,18}$")
_LONGEST_MARK = 20
_MOST_BYTES = 256 << 20
_VARIABLES = {"VariableV2", "Variable", "VarHandleOp"}
_ROWS = {"ResourceGather", "Gather", "GatherV2"}
#: A longer chain from a variable to what is sent is no lookup any more.
_LONGEST_CHAIN = 20
_Event = dict[str, JsonValue]


@dataclass(frozen=True)
class _Op:
    name: str
    kind: str
    server: int | None
    inputs: tuple[str, ...]


def read_timeline(path: Path) -> Facts:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        accepted = f"at most {_MOST_BYTES >> 20} MiB"
        raise BadInput.at("moor variables", str(path), "a longer timeline", accepted)
    return parse_timeline(data, str(path))


def parse_timeline(data: bytes, source: str) -> Facts:
    """Raises BadInput if it is no trace of parameter servers with the sizes of tensors."""
    try:
        document = json.loads(data)
        listed = document["traceEvents"]
        events = [event for event in listed if isinstance(event, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        accepted = "a timeline.json of TensorFlow"
        raise BadInput.at("moor variables", source, "no Chrome trace", accepted) from None
    ops = {op.name: op for op in _operations(events)}
    tensors = dict(_tensors(events))
    moved: dict[str, float] = {}
    gathered: set[str] = set()
    for variable, sender, rows in _transfers(ops):
        moved[variable] = moved.get(variable, 0.0) + tensors.get(sender, (0, ()))[0]
        if rows:
            gathered.add(variable)
    readers = _whole_readers(ops)
    parts = []
    for op in ops.values():
        if op.kind in _VARIABLES and op.server is not None:
            size_bytes, shape = _held(op, readers, tensors)
            looked_up = op.name in gathered or None
            bytes_moved = moved.get(op.name, 0.0)
            parts.append(
                PartFacts(op.name, shape, size_bytes, op.server, 0, looked_up, False, bytes_moved)
            )
    if not any(moved.values()):
        raise BadInput.at(
            "moor variables",
            source,
            "no variables on /job:ps whose bytes are known",
            "a timeline of parameter servers, made with show_memory=True",
        )
    servers = 1 + max(part.server or 0 for part in parts)
    return Facts(source, servers, tuple(parts), steps=1)


def _operations(events: list[_Event]) -> Iterator[_Op]:
    # A number of a process may be anything that JSON has: its text stands for it.
    devices = {
        str(event.get("pid")): _argument(event, "name")
        for event in events
        if event.get("name") == "process_name"
    }
    for event in events:
        name = _argument(event, "name")
        if event.get("ph") != "X" or not name:
            continue
        server = _SERVER.search(devices.get(str(event.get("pid")), ""))
        inputs = (_argument(event, f"input{number}") for number in range(10))
        yield _Op(
            name,
            _argument(event, "op") or str(event.get("name")),
            int(server[1]) if server else None,
            tuple(each for each in inputs if each),
        )


def _transfers(ops: Mapping[str, _Op]) -> Iterator[tuple[str, str, bool]]:
    """(variable, the operation whose result travelled, whether it was rows); each once."""
    seen: set[tuple[str, int | None]] = set()
    for op in ops.values():
        for given in op.inputs:
            far = _FROM_AFAR.search(given[-_LONGEST_MARK:])
            name = given[: len(given) - len(far[0])] if far is not None else ""
            if name not in ops or (name, op.server) in seen:
                continue
            seen.add((name, op.server))
            sender = ops[name]
            variable, rows = _origin(sender, ops)
            if variable is None and op.inputs:
                # A gradient: it goes into an operation on a variable.
                variable, rows = _origin(op, ops)[0], False
            if variable is not None:
                yield variable, sender.name, rows


def _origin(op: _Op, ops: Mapping[str, _Op]) -> tuple[str | None, bool]:
    """The variable on a server that a value comes from, and whether rows were taken on the way."""
    rows = False
    for _ in range(_LONGEST_CHAIN):
        if op.server is None:
            return None, False
        if op.kind in _VARIABLES:
            return op.name, rows
        rows = rows or op.kind in _ROWS
        if not op.inputs or op.inputs[0] not in ops:
            return None, False
        op = ops[op.inputs[0]]
    return None, False


def _whole_readers(ops: Mapping[str, _Op]) -> dict[str, list[str]]:
    """Operation -> those that take its result first, and not only rows of it."""
    readers: dict[str, list[str]] = {}
    for op in ops.values():
        if op.inputs and op.kind not in _ROWS:
            readers.setdefault(op.inputs[0], []).append(op.name)
    return readers


def _held(
    variable: _Op,
    readers: Mapping[str, list[str]],
    tensors: Mapping[str, tuple[int, tuple[int, ...]]],
) -> tuple[int, tuple[int, ...]]:
    """Size and shape: of the variable itself, or of what reads it whole (a handle has none)."""
    whole = [variable.name, *readers.get(variable.name, ())]
    return max((tensors.get(name, (0, ())) for name in whole), key=lambda found: found[0])


def _tensors(events: list[_Event]) -> Iterator[tuple[str, tuple[int, tuple[int, ...]]]]:
    for event in events:
        arguments = event.get("args")
        snapshot = arguments.get("snapshot") if isinstance(arguments, dict) else None
        text = str(snapshot.get("tensor_description")) if isinstance(snapshot, dict) else ""
        amount = _BYTES.search(text)
        if amount is not None:
            shape = tuple(int(size) for size in _SIZE.findall(text.split("allocation")[0]))
            yield str(event.get("name")), (int(amount[1]), shape)


def _argument(event: _Event, key: str) -> str:
    arguments = event.get("args")
    value = arguments.get(key) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else ""
