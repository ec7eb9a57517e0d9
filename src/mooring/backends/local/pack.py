"""Packs the launcher into the one file that a member starts.

Members may run another Python than Mooring's own, so the sources go in. Python does not cache what
it compiles out of an archive, and a gang starts many launchers at once, so this Python's byte code
goes in beside them; another version ignores it. The same sources give the same bytes. The folder
`inside` of the archive is what goes onto the path of the member's own programs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zipfile

PACKAGE = "moorlaunch"
_SHEBANG = b"#!/usr/bin/env python3\n"
# Imports make objects that stay: looking for garbage among them takes a sixth of a short launcher's
# time. Thresholds are higher from the start, and at the end nobody looks at all.
_MAIN = f"""import gc
import sys

gc.set_threshold(20000, 20, 20)
from {PACKAGE}.main import main

code = main()
gc.freeze()
sys.exit(code)
"""
# PEP 552: byte code tied to the hash of its source, and not checked against it at import.
_UNCHECKED_HASH = (0b01).to_bytes(4, "little")
# Version 2 has no back references, which depend on how often an object happens to be in use.
_MARSHAL_VERSION = 2
#: Archives of as many versions of Mooring or Python are kept for the next run.
_MOST_KEPT = 4


def copy_launcher(target: Path, kept_in: Path) -> Path:
    """The archive at `target`, from the folder `kept_in`, where it is packed if need be.

    A second name of the same file where that can be: an archive is never written to, and a run
    without it is a tenth as large. A folder that cannot be written to costs the packing, no more.
    """
    with suppress(OSError):
        kept = kept_launcher(kept_in)
        partial = target.with_name(target.name + ".partial")
        try:
            _copy(kept, partial)
            return partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return build_launcher(target)


def kept_launcher(kept_in: Path) -> Path:
    """The archive in the folder `kept_in`, named by what it holds; packed if it is not there.

    Raises OSError where it cannot be.
    """
    digest = hashlib.sha256(MAGIC_NUMBER)
    for name, _, text in _sources():
        digest.update(f"{name} {len(text)} ".encode() + text)
    kept = kept_in / f"launcher-{digest.hexdigest()[:32]}.pyz"
    if not kept.exists():
        kept_in.mkdir(parents=True, exist_ok=True, mode=0o700)
        build_launcher(kept)
        _forget_oldest(kept_in)
    return kept


def _copy(kept: Path, target: Path) -> None:
    try:
        target.hardlink_to(kept)
    except OSError:  # another file system
        shutil.copy(kept, target)


def _forget_oldest(folder: Path) -> None:
    kept = sorted(folder.glob("launcher-*.pyz"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-_MOST_KEPT]:
        path.unlink(missing_ok=True)


def build_launcher(target: Path) -> Path:
    """Writes the archive to `target`, executable, in place of what is there."""
    import zipfile

    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(_SHEBANG)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                _add(archive, "__main__.py", _MAIN.encode())
                for name, path, text in _sources():
                    _add(archive, name, text)
                    _add(archive, name + "c", _byte_code(name, path, text))
        partial.chmod(0o755)
        return partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _sources() -> list[tuple[str, Path, bytes]]:
    """(name in the archive, file, its text) of every module, in the archive's order."""
    home = Path(__file__).parents[2]
    found = [(f"{PACKAGE}/{path.name}", path) for path in sorted((home / "launcher").glob("*.py"))]
    inside = home / "inside"
    # `inside` itself is a folder of the path there, not a package.
    found += [
        (path.relative_to(home).as_posix(), path)
        for path in sorted(inside.rglob("*.py"))
        if path != inside / "__init__.py"
    ]
    return [(name, path, path.read_bytes()) for name, path in found]


def _byte_code(name: str, path: Path, text: bytes) -> bytes:
    """The loader compiles, or takes what an installation compiled before; nothing is imported."""
    import marshal

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
    import zipfile

    archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), data)
