"""The page of all public names of `mooring`, from their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator

import mooring

_HEAD = """# Python reference

Every public name of the package, as its source says. How to use them:
[Mooring from Python](python.md), [the SDK](sdk.md).
"""
#: What annotations say of where a name is at home.
_HOMES = re.compile(r"(?:[a-z_]+\.)+(?=[A-Z])")


def python_reference() -> str:
    names = [name for name in mooring.__all__ if not name.startswith("__")]
    values = {name: getattr(mooring, name) for name in names}
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": []}
    for name in sorted(values, key=str.lower):
        value = values[name]
        if not inspect.isclass(value):
            groups["Functions"].append(name)
        elif issubclass(value, Exception):
            groups["Errors"].append(name)
        else:
            groups["Classes"].append(name)
    parts = [_HEAD]
    for title, members in groups.items():
        parts.append(f"## {title}\n")
        for name in members:
            parts += _entry(name, values[name])
    return "\n".join(parts)


def _entry(name: str, value: object) -> Iterator[str]:
    yield f"### {name}\n"
    if not inspect.isclass(value):
        yield f"```python\n{_signature(name, value)}\n```\n"
    yield f"{_says(value)}\n"
    if inspect.isclass(value) and not issubclass(value, Exception):
        rows = [*_fields(value), *_methods(value)]
        if rows:
            yield "| | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _fields(kind: type) -> Iterator[str]:
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            yield _row(f"{field.name}: {_short(str(field.type))}", "")


def _methods(kind: type) -> Iterator[str]:
    for name, value in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            assert value.fget is not None
            told = inspect.signature(value.fget).return_annotation
            yield _row(f"{name}: {_short(str(told))}", _says(value, bare=True))
        elif isinstance(value, classmethod | staticmethod) or inspect.isfunction(value):
            bound = getattr(kind, name) if isinstance(value, classmethod) else value
            yield _row(_signature(name, bound), _says(value, bare=True))


def _row(code: str, text: str) -> str:
    escaped = code.replace("|", "\\|")
    return f"| `{escaped}` | {' '.join(text.split()).replace('|', chr(92) + '|')} |"


def _signature(name: str, value: object) -> str:
    assert callable(value)
    word = "async " if inspect.iscoroutinefunction(value) else ""
    signature = inspect.signature(value)
    kept = [one for one in signature.parameters.values() if one.name != "self"]
    return word + _short(f"{name}{signature.replace(parameters=kept)}".replace("'", ""))


def _short(text: str) -> str:
    return _HOMES.sub("", text)


def _says(value: object, *, bare: bool = False) -> str:
    text = inspect.getdoc(value) or ""
    generated = dataclasses.is_dataclass(value) and text.startswith(
        f"{getattr(value, '__name__', '')}("
    )
    return "" if generated and not bare else text
