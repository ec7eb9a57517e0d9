"""Calls back when a module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys

from . import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType


def after(wanted: Mapping[str, Callable[[ModuleType], None]]) -> None:
    """`wanted`: name of a module -> what to do once its code has run. It is done once."""
    sys.meta_path.insert(0, _Finder(dict(wanted)))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, wanted: dict[str, Callable[[ModuleType], None]]) -> None:
        self._wanted = wanted

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._wanted:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            # Whoever only asks for the spec does not load it: it is waited for until it runs.
            spec.loader = _Loader(spec.loader, lambda: self._wanted.pop(fullname, None))
        return spec


class _Loader(importlib.abc.Loader):
    """The module's own loader, and a word afterwards."""

    def __init__(
        self,
        own: importlib.abc.Loader,
        take: Callable[[], Callable[[ModuleType], None] | None],
    ) -> None:
        self._own = own
        self._take = take

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        then = self._take()
        if then is not None:
            guard.attempt("%s, which is not as expected" % module.__name__, then, module)
