"""Tells the launcher which variable lives on which server, and what each step does with it."""

from __future__ import annotations

import json
import os
import sys
import weakref

from . import graph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CREATE = "_create_variable_round_robin"
_MARK = "::mooring:: "
_STDOUT = 1
#: A function that is traced again and again is not looked at again and again.
_MOST_TRACES = 8

#: Handle of a variable -> its name as it was told, and what is known of who uses it.
_names: dict[int, str] = {}
_taken: set[str] = set()
_path: list[str] = []
keras_embeddings: weakref.WeakSet[Any] = weakref.WeakSet()
keras_adam: set[int] = set()


def tell(entries: list[dict[str, object]]) -> None:
    """One line to the launcher: see `mooring.sdk.tell`."""
    try:
        sys.stdout.flush()
        for entry in entries:
            line = _MARK + json.dumps({"variables": [entry]}) + "\n"
            os.write(_STDOUT, line.encode())
    except (OSError, ValueError):
        return


def watch_variables(module: Any) -> None:
    """Parameter server strategies tell each variable that they make."""
    extended = module.ParameterServerStrategyV2Extended
    create = getattr(extended, _CREATE)

    def told(self: Any, next_creator: Any, **kwargs: Any) -> Any:
        made = create(self, next_creator, **kwargs)
        # A strategy of the SDK tells by itself.
        if _CREATE not in vars(self):
            try:
                _tell_made(made)
            except Exception as error:
                _complain("a variable", error)
        return made

    setattr(extended, _CREATE, told)


def name_by_path(module: Any) -> None:
    """Keras calls every table `embeddings`; its path says which one."""
    initialize = module.Variable._initialize

    def named(self: Any, value: Any) -> Any:
        _path.append(str(getattr(self, "path", "") or ""))
        try:
            return initialize(self, value)
        finally:
            _path.pop()

    module.Variable._initialize = named


def watch_functions(module: Any) -> None:
    """What the coordinator schedules is looked at when it is new: it has been traced by then."""
    coordinator = module.ClusterCoordinator
    schedule = coordinator.schedule
    seen: set[int] = set()

    def watched(self: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        scheduled = schedule(self, fn, *args, **kwargs)
        listed = getattr(fn, "_list_all_concrete_functions", None)
        if listed is not None and len(seen) < _MOST_TRACES:
            try:
                for trace in listed():
                    if id(trace) not in seen:
                        seen.add(id(trace))
                        tell([_used(table) for table in graph.tables(trace)])
            except Exception as error:
                seen.update(range(_MOST_TRACES))
                _complain("a function", error)
        return scheduled

    coordinator.schedule = watched


def _tell_made(variable: Any) -> None:
    name, number = graph.name_and_part(variable)
    if _path and _path[-1]:
        name = _path[-1]
    if not number:
        name = _unused(name)
    _names[id(variable.handle)] = name
    device = str(variable.device)
    server = device.partition("/task:")[2].partition("/")[0]
    if "/job:ps" not in device or not server.isdigit():
        return
    entry: dict[str, object] = {
        "name": name,
        "shape": [int(size) for size in variable.shape],
        "bytes": variable.shape.num_elements() * variable.dtype.size,
        "server": int(server),
        "part": number,
    }
    tell([entry])


def _unused(name: str) -> str:
    count, free = 1, name
    while free in _taken:
        count += 1
        free = "%s_%d" % (name, count)
    _taken.add(free)
    return free


def _used(table: graph.Table) -> dict[str, object]:
    handle = id(table.variable.handle)
    name = _names.get(handle) or graph.name_and_part(table.variable)[0]
    entry: dict[str, object] = {"name": name, "whole": table.whole}
    if table.written_whole or table.written_rows:
        entry["written"] = "whole" if table.written_whole else "rows"
    if handle in _keras_tables():
        entry["layer"] = "keras"
    if handle in keras_adam:
        entry["optimizer"] = "keras-adam"
    return entry


def _keras_tables() -> set[int]:
    values = [getattr(layer, "_embeddings", None) for layer in keras_embeddings]
    return {id(value.handle) for value in values if value is not None}


def _complain(what: str, error: Exception) -> None:
    sys.stderr.write("mooring: cannot look at %s of this program: %s\n" % (what, error))
