"""What a traced function does with each table: does it fetch rows or all of it, and write which?

`tf.nn.embedding_lookup` on a variable gathers on the server and sends rows. Code that first turns
the variable into a tensor and then gathers (the Embedding layer of Keras 3 does) makes the server
send the whole table to every worker in every step. Both look alike in Python; in the traced graph
the one is a ResourceGather, the other a ReadVariableOp whose value goes into a Gather. An optimizer
that touches every row assigns to the variable or applies a dense update; one that does not,
scatters.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_GATHERS = {"GatherV2", "Gather", "GatherNd", "SparseSegmentSum", "SparseSegmentMean"}
_SAME_VALUE = {"Identity", "Cast", "Reshape", "StopGradient", "EnsureShape", "IdentityN"}
_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
_ASSIGNS = {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"}


class Table:
    """A variable that rows are taken from."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.whole = False
        """The whole table travels, not the rows."""
        self.written_whole = False
        """An update touches every row."""
        self.written_rows = False
        self.size_bytes: int = variable.shape.num_elements() * variable.dtype.size


def name_and_part(variable: Any) -> tuple[str, int]:
    """The variable's name without its part, and which part of it this is."""
    own = variable.name.split(":")[0]
    head, _, part = own.rpartition("/part_")
    return (head, int(part)) if part.isdigit() else (own, 0)


def tables(trace: Any) -> list[Table]:
    """Those of one concrete function. Parts of a divided variable are tables of their own."""
    # What an optimizer keeps is read where it lives; only what is trained travels.
    trained = [variable for variable in trace.graph.variables if variable.trainable]
    variables = {id(variable.handle): variable for variable in trained}
    handles = {
        inner.name: variables[id(outer)]
        for outer, inner in trace.graph.captures
        if id(outer) in variables
    }
    found: dict[int, Table] = {}
    seen = list(_uses(trace.graph, handles, {}))
    for variable, use in seen:
        if use in ("whole", "rows"):
            table = found.setdefault(id(variable.handle), Table(variable))
            table.whole = table.whole or use == "whole"
    for variable, use in seen:
        table_or_none = found.get(id(variable.handle))
        if table_or_none is not None and use == "write whole":
            table_or_none.written_whole = True
        if table_or_none is not None and use == "write rows":
            table_or_none.written_rows = True
    return list(found.values())


def _uses(graph: Any, handles: dict[str, Any], values: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """handles, values: tensors by name that are a variable's handle, or its whole value."""
    values = dict(values)
    for op in graph.get_operations():
        inputs = [tensor.name for tensor in op.inputs]
        first = inputs[0] if inputs else ""
        if op.type == "ReadVariableOp" and first in handles:
            values[op.outputs[0].name] = handles[first]
        elif op.type in _SAME_VALUE and first in values:
            values[op.outputs[0].name] = values[first]
        elif op.type in _GATHERS and first in values:
            yield values[first], "whole"
        elif op.type == "ResourceGather" and first in handles:
            yield handles[first], "rows"
        elif first in handles and (op.type in _ASSIGNS or op.type.startswith("ResourceApply")):
            yield handles[first], "write whole"
        elif first in handles and op.type.startswith(("ResourceScatter", "ResourceSparseApply")):
            yield handles[first], "write rows"
        elif op.type in _CALLS:
            inner = graph._get_function(op.get_attr("f").name).graph
            # A call may capture more than its own arguments, at the end.
            own = list(zip((tensor.name for tensor in inner.inputs), inputs))
            yield from _uses(
                inner,
                {name: handles[outer] for name, outer in own if outer in handles},
                {name: values[outer] for name, outer in own if outer in values},
            )
