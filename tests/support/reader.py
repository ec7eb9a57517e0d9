"""Somebody who types what a page of the documentation says: one shell, in a clone."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from support.pages import Command, File, difference

ROOT = Path(__file__).parents[2]
_IN_A_CLONE = (
    "LICENSE",
    "Makefile",
    "README.md",
    "pyproject.toml",
    "examples",
    "requirements",
    "src",
)
_END = "__the end of a command__"


def packages() -> str:
    """Where this Python finds its packages, for a Python that shall borrow them."""
    return os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))


class Reader:
    """A shell with a home of its own. What it installs goes there, and finds the packages of this
    Python already installed, so that nothing large is downloaded.
    """

    def __init__(self, tmp_path: Path, *, clone: bool = False) -> None:
        """In a copy of this tree, or with `clone` in what git has of it."""
        self.folder = tmp_path / "mooring"
        if clone:
            # Whoever runs the tests may not be who owns the tree.
            git = ("git", "-c", f"safe.directory={ROOT}", "-c", f"safe.directory={ROOT}/.git")
            subprocess.run([*git, "clone", "-q", ROOT, self.folder], check=True, timeout=60)
        else:
            self.folder.mkdir()
            for name in _IN_A_CLONE:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, self.folder / name)
        self.home = tmp_path / "home"
        self.home.mkdir()
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYENV_ROOT": os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv"),
            "PYTHONPATH": packages(),
            "PIP_CACHE_DIR": str(caches / "pip"),
            "UV_CACHE_DIR": str(caches / "uv"),
            # pip's own way to say it: build with the packages that are here.
            "PIP_NO_BUILD_ISOLATION": "0",
            "COLUMNS": "100",
        }
        self.env.pop("MOORING_HOME", None)
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._shell.kill()
        self._shell.communicate()

    def write(self, file: File) -> None:
        path = self.folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")

    def type(self, text: str, timeout_s: float = 300) -> tuple[int, str]:
        """The exit code of a command, and what it printed."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        line = f"{{ {text}\n}} </dev/null 2>&1; printf '\\n%s %d\\n' '{_END}' $?\n"
        self._shell.stdin.write(line.encode())
        self._shell.stdin.flush()
        printed = b""
        until = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._shell.stdout, selectors.EVENT_READ)
            while f"\n{_END} ".encode() not in printed or not printed.endswith(b"\n"):
                if not selector.select(until - time.monotonic()):
                    raise TimeoutError(f"{text}: no end in {timeout_s} s:\n{printed.decode()}")
                chunk = os.read(self._shell.stdout.fileno(), 65536)
                if not chunk:
                    raise EOFError(f"{text}: the shell ended:\n{printed.decode()}")
                printed += chunk
        output, _, code = printed.decode().rpartition(f"\n{_END} ")
        return int(code), output

    def disagrees(self, command: Command) -> str | None:
        """What the page says and is not so, or None."""
        code, printed = self.type(command.text)
        if code != command.exit_code:
            return f"ended with {code}, not {command.exit_code}:\n{printed}"
        problem = difference(command.output, printed)
        return problem and f"{problem}\nall that was printed:\n{printed}"
