"""Does a lookup fetch its rows, or the whole table? The program asks, and is warned."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from mooring.inside.mooring_inside import graph
from mooring.sdk import tell
from mooring.sharding import LEAST_PARTED_BYTES


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
        for table in graph.tables(trace):
            name, _ = graph.name_and_part(table.variable)
            if name not in found or table.whole:
                found[name] = Lookup(name, table.size_bytes, table.whole)
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
