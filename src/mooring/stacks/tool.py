"""py-spy as a program: where it is, how it is called, what its complaints mean.

It reads the memory of the other process without stopping it (`--nonblocking`): nothing is traced,
so that a py-spy that dies leaves nobody stopped. A look that met a stack in change is dropped.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

MISSING = (
    "py-spy is not installed: pip install py-spy"
    if sys.platform.startswith("linux")
    else "stacks are looked at on Linux only"
)
OFF = "the run was started with --no-stacks"


def find_tool() -> str | None:
    """On PATH, or beside this Python, where it is installed to."""
    if not sys.platform.startswith("linux"):
        return None
    beside = Path(sys.executable).with_name("py-spy")
    return shutil.which("py-spy") or (str(beside) if beside.is_file() else None)


def dump_command(tool: str, pid: int) -> list[str]:
    return [tool, "dump", "--nonblocking", "--json", "--full-filenames", "--pid", str(pid)]


def hopeless(text: str) -> bool:
    """Whether trying again changes nothing; a Python that is just starting can be read soon."""
    lower = text.lower()
    return "permission" in lower or "not permitted" in lower


def complaint(text: str) -> str:
    """One sentence of what py-spy printed before it gave up."""
    lower = text.lower()
    if hopeless(text):
        return "py-spy may not read the trainers: kernel.yama.ptrace_scope, or a container's rules"
    if "python version" in lower or "failed to find" in lower:
        return "py-spy found no Python in the trainers"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"py-spy: {lines[-1][:200]}" if lines else "py-spy ended without a word"
