"""Does a lookup fetch its rows, or the whole table?

`tf.nn.embedding_lookup` on a variable gathers on the server and sends rows. Code that first turns
the variable into a tensor and then gathers (the Embedding layer of Keras 3 does) makes the server
send the whole table to every worker in every step. Both look alike in Python; in the traced graph
the one is a ResourceGather, the other a ReadVariableOp whose value goes into a Gather.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mooring.sdk import tell
from mooring.sharding import LEAST_PARTED_BYTES

_GATHERS = {"GatherV2", "Gather", "GatherNd", "SparseSegmentSum", "SparseSegmentMean"}
_SAME_VALUE = {"Identity", "Cast", "Reshape", "StopGradient", "EnsureShape", "IdentityN"}
_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}


@dataclass(frozen=True)
class Lookup:
    """One variable that rows are taken from."""

    variable: str
    table_bytes: int
    whole: bool
    """The whole table travels, not the rows."""


def check_lookups(function: Any) -> list[Lookup]:
    """What the `tf.function` looks up, from the traces it has so far: call it after a first step.

    Tells Mooring, and prints a warning for each table that is pulled whole and is not small.
    """
    found: dict[str, Lookup] = {}
    for trace in _traces(function):
        for lookup in _lookups(trace):
            before = found.get(lookup.variable)
            if before is None or lookup.whole:
                found[lookup.variable] = lookup
    for lookup in found.values():
        tell({"variables": [{"name": lookup.variable, "whole": lookup.whole}]})
        if lookup.whole and lookup.table_bytes >= LEAST_PARTED_BYTES:
            print(
                f"mooring: every lookup in {lookup.variable} pulls the whole table "
                f"({lookup.table_bytes:,} bytes), not its rows: look up with "
                "tf.nn.embedding_lookup(variable, ids) on the variable itself",
                file=sys.stderr,
                flush=True,
            )
    return list(found.values())


def _traces(function: Any) -> list[Any]:
    listed = getattr(function, "_list_all_concrete_functions", None)
    if listed is None:
        return [function]
    traces: list[Any] = listed()
    if not traces:
        raise ValueError("this function has not been traced yet: run a step, then check it")
    return traces


def _lookups(trace: Any) -> Iterator[Lookup]:
    # What an optimizer keeps is read where it lives; only what is trained travels.
    trained = [variable for variable in trace.graph.variables if variable.trainable]
    variables = {id(variable.handle): variable for variable in trained}
    handles = {
        inner.name: variables[id(outer)]
        for outer, inner in trace.graph.captures
        if id(outer) in variables
    }
    yield from _in_graph(trace.graph, handles, {})


def _in_graph(graph: Any, handles: dict[str, Any], values: dict[str, Any]) -> Iterator[Lookup]:
    """handles, values: tensors by name that are a variable's handle, or its whole value."""
    values = dict(values)
    for op in graph.get_operations():
        inputs = [tensor.name for tensor in op.inputs]
        if op.type == "ReadVariableOp" and inputs[0] in handles:
            values[op.outputs[0].name] = handles[inputs[0]]
        elif op.type in _SAME_VALUE and inputs[0] in values:
            values[op.outputs[0].name] = values[inputs[0]]
        elif op.type in _GATHERS and inputs[0] in values:
            yield _lookup(values[inputs[0]], whole=True)
        elif op.type == "ResourceGather" and inputs[0] in handles:
            yield _lookup(handles[inputs[0]], whole=False)
        elif op.type in _CALLS:
            inner = graph._get_function(op.get_attr("f").name).graph
            # A call may capture more than its own arguments, at the end.
            inside = [tensor.name for tensor in inner.inputs]
            own = list(zip(inside, inputs, strict=False))
            yield from _in_graph(
                inner,
                {name: handles[outer] for name, outer in own if outer in handles},
                {name: values[outer] for name, outer in own if outer in values},
            )


def _lookup(variable: Any, whole: bool) -> Lookup:
    name = variable.name.split(":")[0]
    head, _, part = name.rpartition("/part_")
    size_bytes = variable.shape.num_elements() * variable.dtype.size
    return Lookup(head if part.isdigit() else name, size_bytes, whole)
