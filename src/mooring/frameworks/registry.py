"""Adapters by name: Mooring's own, and those of the entry point group `mooring.frameworks`.

A package that a user installs can add a framework. Only a name that is not Mooring's own makes us
read what the installed packages offer: that takes some 20 ms.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from mooring.frameworks.base import Framework
from mooring.model.errors import BadInput
from mooring.spec.base import one_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "mooring.frameworks"
#: name -> (module, class)
_OWN = {
    "indexed": ("mooring.frameworks.indexed", "Indexed"),
    "mpi": ("mooring.frameworks.mpi", "Mpi"),
    "pytorch": ("mooring.frameworks.pytorch", "PyTorch"),
    "tensorflow": ("mooring.frameworks.tensorflow", "TensorFlow"),
}


def _added() -> Mapping[str, EntryPoint]:
    return _added_on(tuple(sys.path))


@lru_cache(maxsize=1)
def _added_on(path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> tuple[str, ...]:
    """The frameworks that can be used here, sorted."""
    return tuple(sorted({*_OWN, *_added()}))


def find(name: str, source: str = "job") -> Framework:
    """The adapter called `name`. Raises BadInput naming `spec.framework`."""
    if name in _OWN:
        module, attribute = _OWN[name]
        own: type[Framework] = getattr(importlib.import_module(module), attribute)
        return own()
    return _find_added(name, source)


def _find_added(name: str, source: str) -> Framework:
    entry = _added().get(name)
    if entry is None:
        raise BadInput.at(source, "spec.framework", repr(name), one_of(name, names()))
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
            one_of(None, names()),
        )
    return adapter()


def starter_files(name: str) -> dict[str, str]:
    """The files of a starter job for `name`: file name -> text; empty if it has none."""
    return find(name).starter_files()
