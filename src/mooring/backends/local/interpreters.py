"""Which Python the word `python` of a command means on this machine, and what that Python has.

The job's own `python:` comes first. Otherwise it is what the user's shell would run, as far as
there is one: the active environment, the PATH's `python`, its `python3`, and where there is none
the interpreter that runs Mooring.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring.frameworks.commands import PYTHON
from mooring.model.errors import BadInput

OF_JOB = "the job's python"
ACTIVE = "active environment"
ON_PATH = "first on the PATH"
ONLY_PYTHON3 = "python3 of the PATH, which has no python"
OWN = "the one that runs moor: the PATH has no python"

#: An interpreter that takes longer is not waited for: it is used without being looked at.
_ANSWER_WITHIN_S = 10.0
_ANSWER = "mooring-answer:"
#: Run by the interpreter in question, any Python 3. What cannot be looked up counts as there.
_QUESTION = """
import os, sys
from importlib.util import find_spec
def has(name):
    try:
        return find_spec(name) is not None
    except Exception:
        return True
sys.path[:0] = [folder for folder in sys.argv[1:2] if folder]
library = os.path.dirname(os.__file__)
managed = sys.prefix == sys.base_prefix and os.path.exists(library + "/EXTERNALLY-MANAGED")
answer = ["%d.%d.%d" % sys.version_info[:3], "managed" if managed else "free"]
print("mooring-answer:" + " ".join(answer + [name for name in sys.argv[2:] if has(name)]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python of this machine: its path as it is started, and why it was chosen.

    environment: the folder of the virtual or conda environment that it belongs to, or empty.
    """

    path: str
    origin: str
    environment: str = ""
    version: str = ""

    @property
    def said(self) -> str:
        known = [self.version] if self.version else []
        return f"{self.path} ({', '.join([*known, self.origin])})"

    def activation(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What activating its environment sets, unless the PATH leads there already.

        So `torchrun`, or a shell that a member starts, finds the same environment.
        """
        path = environ.get("PATH", os.defpath)
        if not self.environment or shutil.which("python", path=path) == self.path:
            return {}
        name = "CONDA_PREFIX" if _is_conda(Path(self.environment)) else "VIRTUAL_ENV"
        folder = str(Path(self.environment, "bin"))
        return {"PATH": f"{folder}{os.pathsep}{path}", name: self.environment}


def of_job(given: str, folder: Path, source: str) -> Interpreter:
    """What `spec.python` names, relative to `folder`: an interpreter or an environment's folder."""
    accepted = "an interpreter, or the folder of a virtual or conda environment"

    def refused(found: str) -> BadInput:
        return BadInput.at(source, "spec.python", f"{given!r}, {found}", accepted)

    try:
        path = folder / Path(given).expanduser()
    except RuntimeError:
        raise refused("in a home that is not known") from None
    # Not resolved: an environment is recognised by the path of its interpreter, which is a link.
    path = Path(os.path.normpath(path.absolute()))
    if _is_dir(path):
        inside = _interpreter_in(path)
        if inside is None:
            raise refused("a folder without bin/python")
        path = inside
    elif not _is_file(path):
        raise refused("which does not exist")
    if not os.access(path, os.X_OK):
        raise refused("which is not executable")
    return Interpreter(str(path), OF_JOB, _environment_of(path))


def in_shell(environ: Mapping[str, str], word: str = "python") -> Interpreter:
    """What `python` (or `python3`) means without a word from the job."""
    path = environ.get("PATH", os.defpath)
    first = shutil.which(word, path=path)
    if first is not None and (environment := _environment_of(Path(first))):
        return Interpreter(first, ACTIVE, environment)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environ.get(variable)
        inside = _interpreter_in(Path(folder)) if folder else None
        if inside is not None and os.access(inside, os.X_OK):
            return Interpreter(str(inside), ACTIVE, str(folder))
    if first is not None:
        return Interpreter(first, ON_PATH)
    for other in PYTHON:
        found = shutil.which(other, path=path)
        if found is not None:
            return Interpreter(found, ONLY_PYTHON3 if other == "python3" else ON_PATH)
    return Interpreter(sys.executable, OWN, _environment_of(Path(sys.executable)))


def _interpreter_in(folder: Path) -> Path | None:
    names = [folder / "bin" / name for name in PYTHON]
    return next((path for path in names if _is_file(path)), None)


def _environment_of(interpreter: Path) -> str:
    folder = interpreter.parent.parent
    is_one = _is_file(folder / "pyvenv.cfg") or _is_conda(folder)
    return str(folder) if is_one and interpreter.parent.name == "bin" else ""


def _is_conda(folder: Path) -> bool:
    return _is_dir(folder / "conda-meta")


def _is_file(path: Path) -> bool:
    """No, too, of a path that may not be looked at: another user's, or one that is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


@dataclass(frozen=True)
class InterpreterInfo:
    """What an interpreter says of itself. `modules`: those of the asked that it could import."""

    version: str
    modules: frozenset[str]
    is_managed: bool
    """Its packages are the operating system's: pip refuses to add any."""


def glance(interpreter: Interpreter, needed: frozenset[str]) -> InterpreterInfo | None:
    """What the files of an environment tell without starting it: enough, or None.

    Packages that lie elsewhere are not seen, so who misses one of `needed` here asks again.
    """
    folder = Path(interpreter.environment)
    config = folder / "pyvenv.cfg"
    try:
        # Written when the environment was made; a later interpreter may have another version.
        if Path(interpreter.path).resolve().stat().st_ctime > config.stat().st_mtime:
            return None
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    version = re.search(r"^version(?:_info)?\s*=\s*(\d+)\.(\d+)\.(\d+)\s*$", text, re.MULTILINE)
    if version is None:
        return None
    packages = folder / "lib" / f"python{version[1]}.{version[2]}" / "site-packages"
    for name in needed:
        if not (packages / name / "__init__.py").is_file():
            return None
    return InterpreterInfo(".".join(version.groups()), needed, is_managed=False)


def ask(
    interpreter: str,
    modules: Sequence[str],
    *,
    options: str = "",
    folder: str = "",
    environ: Mapping[str, str],
    cwd: Path,
) -> InterpreterInfo | None:
    """Start the interpreter once and ask for its version and modules, none of which is imported.

    `options` are letters of Python's own options, `folder` is where the program's script is.
    None if it gives no answer: nothing is known then.
    """
    flags = [f"-{letter}" for letter in options]
    try:
        done = subprocess.run(
            [interpreter, *flags, "-c", _QUESTION, folder, *modules],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            cwd=cwd,
            timeout=_ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith(_ANSWER):
            version, managed, *found = line.removeprefix(_ANSWER).split()
            return InterpreterInfo(version, frozenset(found), managed == "managed")
    return None
