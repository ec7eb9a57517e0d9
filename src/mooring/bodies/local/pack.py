"""Packs the launcher into the one file that a member starts.

Members may run another Python than Mooring's own, so the sources go in. Python does not cache what
it compiles out of an archive, and a gang starts many launchers at once, so this Python's byte code
goes in beside them; another version ignores it. The same sources give the same bytes.
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
    sources = Path(str(resources.files("mooring"))) / "launcher"
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as file:
        file.write(_SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            _add(archive, "__main__.py", _MAIN.encode())
            for path in sorted(sources.glob("*.py")):
                text = path.read_bytes()
                _add(archive, f"{PACKAGE}/{path.name}", text)
                _add(archive, f"{PACKAGE}/{path.stem}.pyc", _byte_code(path, text))
    partial.chmod(0o755)
    return partial.replace(target)


def _byte_code(path: Path, text: bytes) -> bytes:
    """The loader compiles, or takes what an installation compiled before; nothing is imported."""
    module = f"{PACKAGE}.{path.stem}"
    code = SourceFileLoader(module, str(path)).get_code(module)
    assert code is not None
    stored = marshal.dumps(_relocated(code, f"{PACKAGE}/{path.name}"), _MARSHAL_VERSION)
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
