"""The files of a Python program that are its own: the script and the modules beside it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mooring.frameworks.commands import PythonCommand
from mooring.frameworks.imports import Imports, named_modules, read_imports

#: What is larger was not written by hand.
_LARGEST_BYTES = 1 << 20
_LARGEST_HASHED_BYTES = 16 << 20
_MOST_FILES = 500
_TEXT = re.compile(r"""["']([A-Za-z_][A-Za-z0-9_]{0,63})["']""")


class ModuleSources:
    """Reads modules below one folder, and remembers the hash of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hashes: dict[str, str] = {}

    def read_file(self, path: Path) -> str | None:
        """The text of a file, or None if it is no small Python source."""
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST_BYTES:
                return None
            data = path.read_bytes()
        except (OSError, ValueError):
            return None
        self.hashes[str(path)] = hashlib.sha256(data).hexdigest()
        return data.decode("utf-8-sig", "replace")

    def hash_words(self, argv: Sequence[str]) -> None:
        """Of a command that is not Python's: its program and scripts, as far as they are here."""
        words = [word for word in argv[1:] if word.endswith((".py", ".sh"))]
        for word in [*(word for word in argv[:1] if "/" in word), *words]:
            path = self.folder / word
            with suppress(OSError, ValueError):
                if path.is_file() and path.stat().st_size <= _LARGEST_HASHED_BYTES:
                    self.hashes[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()

    def read_module(self, name: str) -> tuple[str, bool] | None:
        """The text of the module with this dotted name, and whether it is a package."""
        path = self.folder.joinpath(*name.split("."))
        module = path.with_name(f"{path.name}.py")
        for candidate, is_package in ((path / "__init__.py", True), (module, False)):
            text = self.read_file(candidate)
            if text is not None:
                return text, is_package
        return None


@dataclass(frozen=True)
class Scan:
    """What a program's files seem to contain, found quickly: text is searched, nothing is parsed.

    names: top-level names of all modules that are imported anywhere, and maybe more; texts: short
    texts that may name variables of the environment; folder: what Python puts first on its path.
    """

    folder: Path
    names: frozenset[str]
    texts: frozenset[str]
    hashes: Mapping[str, str]


def scan(command: PythonCommand, cwd: Path) -> Scan:
    """Look through the program and its own modules."""
    sources, text, package = _program(command, cwd)
    names: set[str] = set()
    texts: set[str] = set()
    if text is None and command.module is not None:
        # Somebody else's: `-m torch.distributed.run` is about torch, and what it runs is not here.
        names.add(command.module.partition(".")[0])
    waiting = [(text or "", package)]
    seen: set[str] = set()
    while waiting and len(sources.hashes) < _MOST_FILES:
        text, package = waiting.pop()
        texts.update(_TEXT.findall(text))
        for module in named_modules(text, package):
            names.add(module.partition(".")[0])
            parts = module.split(".")
            for name in (".".join(parts[:depth]) for depth in range(1, len(parts) + 1)):
                found = None if name in seen else sources.read_module(name)
                seen.add(name)
                if found is not None:
                    waiting.append((found[0], name if found[1] else name.rpartition(".")[0]))
    return Scan(sources.folder, frozenset(names), frozenset(texts), sources.hashes)


def imports_of(command: PythonCommand, cwd: Path, *, follow: bool = True) -> Imports | None:
    """What a program imports, from its text; with `follow` also through its own modules.

    None if its text is not here, or cannot be parsed.
    """
    sources, text, package = _program(command, cwd)
    if text is None:
        return None
    return read_imports(text, package, sources.read_module if follow else lambda name: None)


def _program(command: PythonCommand, cwd: Path) -> tuple[ModuleSources, str | None, str]:
    """Its files, the text of the first, and the package that this is a module of."""
    if command.script is not None:
        path = cwd / command.script
        sources = ModuleSources(path.parent)
        return sources, sources.read_file(path), ""
    sources = ModuleSources(cwd)
    if command.module is None:
        return sources, command.code, ""
    found = sources.read_module(command.module)
    if found is None:
        return sources, None, ""
    text, is_package = found
    if not is_package:
        return sources, text, command.module.rpartition(".")[0]
    main = sources.read_module(f"{command.module}.__main__")
    return sources, main[0] if main else text, command.module
