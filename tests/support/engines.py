"""Keeps TensorFlow and PyTorch out of one process: together they crash it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ENGINES = frozenset({"tensorflow", "torch"})


class SecondEngine(ImportError):
    """A test would load a second training engine into the process of the tests."""


class OneEngine(MetaPathFinder, Loader):
    """Refuses to import a training engine where another one is loaded already.

    Merely looking whether there is one (`find_spec`, as torch does) is no harm.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in ENGINES and (ENGINES - {name}) & set(sys.modules):
            return ModuleSpec(name, self)
        return None

    def exec_module(self, module: ModuleType) -> None:
        raise SecondEngine(
            f"{module.__name__} beside another engine: two in one process crash it; "
            "mark the test with @pytest.mark.own_process"
        )
