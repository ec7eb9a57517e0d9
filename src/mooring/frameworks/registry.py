"""Adapters by name, through the entry point group `mooring.frameworks`.

A package that a user installs can add a framework: nothing here lists the known ones.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from mooring.frameworks.base import Framework
from mooring.model.errors import BadInput
from mooring.spec.base import one_of

GROUP = "mooring.frameworks"


def _found() -> Mapping[str, EntryPoint]:
    return _found_on(tuple(sys.path))


@lru_cache(maxsize=1)
def _found_on(path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Reading what all packages of the path offer takes some 20 ms: once is enough."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> tuple[str, ...]:
    """The frameworks that can be used here, sorted."""
    return tuple(sorted(_found()))


def find(name: str, source: str = "job") -> Framework:
    """The adapter called `name`. Raises BadInput naming `spec.framework`."""
    found = _found()
    entry = found.get(name)
    if entry is None:
        raise BadInput.at(source, "spec.framework", repr(name), one_of(name, sorted(found)))
    try:
        adapter = entry.load()
    except Exception as error:  # another package's code: whatever it raises, the user needs to know
        raise BadInput.at(
            source,
            "spec.framework",
            f"{name!r}, whose adapter {entry.value} cannot be loaded ({error})",
            "a framework whose package is installed whole",
        ) from error
    if not (isinstance(adapter, type) and issubclass(adapter, Framework)):
        raise BadInput.at(
            source,
            "spec.framework",
            f"{name!r}, whose adapter {entry.value} is no mooring.frameworks.Framework",
            one_of(None, sorted(found)),
        )
    return adapter()


def starter_files(name: str) -> dict[str, str]:
    """The files of a starter job for `name`: file name -> text; empty if it has none."""
    return find(name).starter_files()
