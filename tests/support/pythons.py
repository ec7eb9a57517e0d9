"""The Python interpreters of this machine, by minor version."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

#: Those that the package says it runs on.
SUPPORTED = tuple(
    re.findall(
        r"Programming Language :: Python :: (3\.\d+)",
        (Path(__file__).parents[2] / "pyproject.toml").read_text(),
    )
)


def find_python(version: str) -> Path | None:
    """One of this minor version (`3.12`): pyenv's, or by its name on PATH if that is a program of
    its own and not one of pyenv's shims, which may lead nowhere.
    """
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in sorted((root / "versions").glob(f"{version}.*")):
        if (folder / "bin" / "python3").exists():
            return folder / "bin" / "python3"
    found = shutil.which(f"python{version}")
    return Path(found) if found and not Path(found).is_relative_to(root) else None
