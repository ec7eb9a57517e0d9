"""Packs the launcher into the one file that a member starts.

Members may run another Python than Mooring's own, so the sources go in. Python does not cache what
it compiles out of an archive, and a gang starts many launchers at once, so this Python's byte code
goes in beside them; another version ignores it. The same sources give the same bytes. The folder
`inside` of the archive is what goes onto the path of the member's own programs.
"""

from __future__ import annotations

import marshal
import zipfile
from importlib import resources
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from types import CodeType

PACKAGE = "moorlaunch"
_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = f"import sys\n\nfrom {PACKAGE}.main import main\n\nsys.exit(main())\n"
# PEP 552: byte code tied to the hash of its source, and not checked against it at import.
_UNCHECKED_HASH = (0b01).to_bytes(4, "little")
# Version 2 has no back references, which depend on how often an object happens to be in use.
_MARSHAL_VERSION = 2


def build_launcher(target: Path) -> Path:
    """Writes the archive to `target`, executable, in place of what is there."""
    home = Path(str(resources.files("mooring")))
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as file:
        file.write(_SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            _add(archive, "__main__.py", _MAIN.encode())
            for path in sorted((home / "launcher").glob("*.py")):
                _add_module(archive, f"{PACKAGE}/{path.name}", path)
            inside = home / "inside"
            # `inside` itself is a folder of the path there, not a package.
            for path in sorted(inside.rglob("*.py")):
                if path != inside / "__init__.py":
                    _add_module(archive, path.relative_to(home).as_posix(), path)
    partial.chmod(0o755)
    return partial.replace(target)


def _add_module(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    text = path.read_bytes()
    _add(archive, name, text)
    _add(archive, name + "c", _byte_code(name, path, text))


def _byte_code(name: str, path: Path, text: bytes) -> bytes:
    """The loader compiles, or takes what an installation compiled before; nothing is imported."""
    code = SourceFileLoader(path.stem, str(path)).get_code(path.stem)
    assert code is not None
    stored = marshal.dumps(_relocated(code, name), _MARSHAL_VERSION)
    return MAGIC_NUMBER + _UNCHECKED_HASH + source_hash(text) + stored


def _relocated(code: CodeType, filename: str) -> CodeType:
    """The same code without the path that this installation has."""
    constants = tuple(
        _relocated(constant, filename) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=filename, co_consts=constants)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), data)
