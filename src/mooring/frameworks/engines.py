"""Which framework a program is written for, from what it imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from mooring.frameworks.imports import Imports
from mooring.frameworks.registry import find, names
from mooring.model.engine import Engine
from mooring.model.errors import BadInput

#: In the order in which they are asked: a program of PyTorch may use MPI beside it. Others follow,
#: because finding them means reading what all installed packages offer.
_FIRST = ("pytorch", "tensorflow", "mpi")


def framework_of_imports(imports: Imports) -> tuple[str, str] | None:
    """(framework, the module that says so), or None if nothing that is imported says it."""
    for group in _groups():
        for modules in (imports.always, imports.sometimes):
            for framework, engine in group:
                said = sorted(modules & {engine.module, *engine.implied_by})
                if said:
                    return framework, engine.module if engine.module in said else said[0]
    return None


def framework_of_program(program: str) -> str | None:
    """The framework whose engine brings this program: `torchrun`, `mpirun`."""
    for group in _groups():
        for framework, engine in group:
            if program in engine.programs:
                return framework
    return None


def _groups() -> Iterator[list[tuple[str, Engine]]]:
    yield _with_engine(_FIRST)
    yield _with_engine(name for name in names() if name not in _FIRST)


def _with_engine(candidates: Iterable[str]) -> list[tuple[str, Engine]]:
    found = []
    for name in candidates:
        # One whose package is broken is nobody's default.
        with suppress(BadInput):
            engine = find(name).engine
            if engine is not None:
                found.append((name, engine))
    return found
