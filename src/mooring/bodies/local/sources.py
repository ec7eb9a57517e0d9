"""The files of a Python program that are its own: the script and the modules beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mooring.frameworks.commands import PythonCommand
from mooring.frameworks.imports import Imports, read_imports

#: What is larger was not written by hand.
_LARGEST_BYTES = 1 << 20


class Sources:
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

    def read_module(self, name: str) -> tuple[str, bool] | None:
        """The text of the module with this dotted name, and whether it is a package."""
        path = self.folder.joinpath(*name.split("."))
        module = path.with_name(f"{path.name}.py")
        for candidate, is_package in ((path / "__init__.py", True), (module, False)):
            text = self.read_file(candidate)
            if text is not None:
                return text, is_package
        return None


def imports_of(command: PythonCommand, cwd: Path) -> tuple[Imports | None, Sources]:
    """What a command's program imports, as far as its text is here; and the files that were read.

    The sources' folder is what Python puts first on its path for the program.
    """
    if command.script is not None:
        path = cwd / command.script
        sources = Sources(path.parent)
        return _of_text(sources.read_file(path), "", sources), sources
    sources = Sources(cwd)
    if command.code is not None:
        return _of_text(command.code, "", sources), sources
    if command.module is None:
        return None, sources
    found = sources.read_module(command.module)
    if found is None:
        # Somebody else's: `-m torch.distributed.run` is about torch, and what it runs is not here.
        return Imports(sometimes=frozenset({command.module.partition(".")[0]})), sources
    text, is_package = found
    if is_package:
        main = sources.read_module(f"{command.module}.__main__")
        text = main[0] if main else text
    package = command.module if is_package else command.module.rpartition(".")[0]
    return _of_text(text, package, sources), sources


def _of_text(text: str | None, package: str, sources: Sources) -> Imports | None:
    return None if text is None else read_imports(text, package, sources.read_module)
