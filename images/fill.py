"""Fills a folder with what the image of Mooring adds to a Python: `fill.py WHEEL ROOT`.

    /opt/mooring/lib           the wheel, unpacked and compiled
    /opt/mooring/bin/moor      the command
    /opt/mooring/launcher.pyz  what init containers copy into the pods of jobs

Run by the Python that will run what is filled in: the Dockerfile's, and that of the tests, which
make an image without a container engine. So both have the same content. Standard library only.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

MOOR = """#!/usr/bin/env python3
from mooring.cli.main import main

main()
"""
PACK = """
import sys
from pathlib import Path

from mooring.backends.local.pack import build_launcher

build_launcher(Path(sys.argv[1]))
"""


def fill(wheel: Path, root: Path) -> None:
    home = root / "opt" / "mooring"
    library = home / "lib"
    (home / "bin").mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(library)
    compileall.compile_dir(
        library,
        quiet=1,
        stripdir=str(root),
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    moor = home / "bin" / "moor"
    moor.write_text(MOOR)
    moor.chmod(0o755)
    subprocess.run(
        [sys.executable, "-c", PACK, home / "launcher.pyz"],
        env={**os.environ, "PYTHONPATH": str(library)},
        check=True,
    )


if __name__ == "__main__":
    fill(Path(sys.argv[1]), Path(sys.argv[2]))
