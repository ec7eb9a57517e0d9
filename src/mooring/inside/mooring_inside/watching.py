"""Tells the launcher which variable lives on which server, and what each step does with it."""

from __future__ import annotations

import weakref

from . import graph, guard, telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CREATE = "_create_variable_round_robin"
#: A function that is traced again and again is not looked at again and again.
_MOST_TRACES = 8

#: Handle of a variable -> its name as it was told, and what is known of who uses it.
_names: dict[int, str] = {}
_taken: set[str] = set()
_path: list[str] = []
_layers_of_keras_2: list[None] = []
_traces: set[int] = set()
keras_embeddings: weakref.WeakSet[Any] = weakref.WeakSet()
keras_adam: set[int] = set()


def watch_variables(module: Any) -> None:
    """Parameter server strategies tell each variable that they make."""
    extended = module.ParameterServerStrategyV2Extended
    guard.beside(extended, "__init__", "the strategy", before=_begin)
    guard.beside(extended, _CREATE, "a variable", after=_made)


def name_by_path(module: Any) -> None:
    """Keras calls every table `embeddings`; its path says which one."""
    what = "the name of a variable of Keras"
    guard.beside(module.Variable, "_initialize", what, before=_enter, ended=_leave)


def note_layers_of_keras_2(module: Any) -> None:
    """Keras 2 makes plain variables of TensorFlow: only its layers know that they are theirs."""

    def enter(*args: Any, **kwargs: Any) -> None:
        _layers_of_keras_2.append(None)

    def leave() -> None:
        _layers_of_keras_2.pop()

    guard.beside(module.Layer, "add_weight", "a layer of Keras 2", before=enter, ended=leave)


def watch_functions(module: Any) -> None:
    """What the coordinator schedules is looked at when it is new: it has been traced by then."""
    guard.beside(module.ClusterCoordinator, "schedule", "a function", after=_scheduled)


def parts(variable: Any) -> list[Any]:
    """The `tf.Variable`s behind this one: the parts of a divided one, the one inside of Keras'."""
    inner = getattr(variable, "value", None)
    if inner is not None and not callable(inner):
        return parts(inner)
    divided = getattr(variable, "variables", None)
    return list(divided) if divided is not None else [variable]


def _begin(*args: Any, **kwargs: Any) -> None:
    telling.begin()


def _enter(variable: Any, *args: Any, **kwargs: Any) -> None:
    _path.append(str(getattr(variable, "path", "") or ""))


def _leave() -> None:
    _path.pop()


def _made(variable: Any, extended: Any, *args: Any, **kwargs: Any) -> None:
    maker = _maker()
    if maker != "tensorflow":
        telling.saw(maker)
    # A strategy of the SDK tells its variables by itself.
    if _CREATE not in vars(extended):
        _tell_made(variable, maker)


def _maker() -> str:
    """Whose variable it is that is being made: `mooring.variables.Maker`."""
    if _path:
        return "keras-3"
    return "keras-2" if _layers_of_keras_2 else "tensorflow"


def _scheduled(result: Any, coordinator: Any, fn: Any, *args: Any, **kwargs: Any) -> None:
    listed = getattr(fn, "_list_all_concrete_functions", None)
    if listed is None or len(_traces) >= _MOST_TRACES:
        return
    for trace in listed():
        if id(trace) not in _traces:
            _traces.add(id(trace))
            for table in graph.tables(trace):
                telling.tell({"variables": [_used(table)]})


def _tell_made(variable: Any, maker: str) -> None:
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
        "maker": maker,
        "trainable": bool(variable.trainable),
    }
    telling.tell({"variables": [entry]})


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
    tables = [value for value in values if value is not None]
    return {id(part.handle) for table in tables for part in parts(table)}
