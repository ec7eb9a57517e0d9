"""Commands that run Python: which word is the interpreter, and what it is given to run.

Only what is certain counts: the first word of a command, or the first such word after `mpirun`.
What a shell, a container or another launcher makes of its words is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

#: The words that mean the job's interpreter, whichever that is.
PYTHON = ("python", "python3")
#: They start what follows them, on each rank.
RANK_STARTERS = ("mpirun", "mpiexec", "orterun")

_INTERPRETER = re.compile(r"python(\d+(\.\d+)*t?)?", re.ASCII)
#: Options of Python whose value may be a word of its own.
_WITH_VALUE = "XW"
#: Options that change where Python looks for modules.
_OF_PATH = "IEsSP"


@dataclass(frozen=True)
class PythonCommand:
    """A command that runs Python: `argv[at]` is the interpreter.

    At most one of `script`, `module` and `code` is there. `path_options` are the letters of the
    options that change where modules are looked for.
    """

    at: int
    interpreter: str
    path_options: str = ""
    script: str | None = None
    module: str | None = None
    code: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the command leaves it to Mooring which interpreter runs it."""
        return self.interpreter in PYTHON

    @property
    def said(self) -> str:
        """What it runs, for messages."""
        return self.script or (f"-m {self.module}" if self.module else "its -c program")


def python_command(argv: Sequence[str]) -> PythonCommand | None:
    """What a command gives to Python, or None if it does not run Python."""
    at = _interpreter_at(argv)
    if at is None:
        return None
    letters = ""
    words = iter(argv[at + 1 :])
    for word in words:
        if word == "-" or not word.startswith("-") or word.startswith("--"):
            # Long options of Python take no script along that could be looked into.
            script = word if word != "-" and not word.startswith("--") else None
            return PythonCommand(at, argv[at], letters, script=script)
        for place, letter in enumerate(word[1:], start=2):
            rest = word[place:]
            if letter in "mc":
                value = rest or next(words, "")
                given = {"module" if letter == "m" else "code": value or None}
                return PythonCommand(at, argv[at], letters, **given)
            if letter in _WITH_VALUE:
                if not rest:
                    next(words, None)
                break
            if letter in _OF_PATH:
                letters += letter
    return PythonCommand(at, argv[at], letters)


def with_interpreter(argv: Sequence[str], path: str) -> tuple[str, ...]:
    """The command with `path` where it says `python`; any other command as it is."""
    words = list(argv)
    at = _interpreter_at(argv)
    if at is not None and words[at] in PYTHON:
        words[at] = path
    return tuple(words)


def _interpreter_at(argv: Sequence[str]) -> int | None:
    if not argv:
        return None
    if is_interpreter(argv[0]):
        return 0
    if PurePosixPath(argv[0]).name not in RANK_STARTERS:
        return None
    return next((at for at, word in enumerate(argv) if is_interpreter(word)), None)


def is_interpreter(word: str) -> bool:
    """Whether a word or a path is called as Python's interpreters are."""
    return _INTERPRETER.fullmatch(PurePosixPath(word).name) is not None
