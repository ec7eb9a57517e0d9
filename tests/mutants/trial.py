"""One mutant after the other, in copies of the tree: do its tests notice?

A test counts only if it passes on the tree as it is: one that always fails would notice anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mutants.mutant import DoesNotApply, Mutant

#: Of the tree, what no test reads and what is large.
_LEFT_OUT = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist")
#: Of one test: a mutant may take away what ends a wait.
_LONGEST_S = 120
_LONGEST_WITH_KUBE_S = 600
#: Of pytest's last lines: room for why a test failed.
_WIDTH = "250"
#: What pytest returns if tests have run and one of them failed.
_FAILED = 1


class Outcome(StrEnum):
    """What became of a mutant."""

    CAUGHT = "caught"
    NOT_CAUGHT = "NOT CAUGHT"
    DOES_NOT_APPLY = "DOES NOT APPLY"
    FAILS_WITHOUT = "FAILS WITHOUT IT"
    """Its tests fail on the tree as it is, so that they say nothing."""
    NOT_RUN = "not run"
    """What its tests need is not here."""

    @property
    def is_good(self) -> bool:
        return self in (Outcome.CAUGHT, Outcome.NOT_RUN)


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    outcome: Outcome
    said: str
    """The test that noticed, or why there is no good answer."""


@dataclass(frozen=True)
class _Run:
    code: int
    said: str


class Trial:
    """Tries mutants of the tree at `root`; `folder` is an empty one for the copies."""

    def __init__(self, root: Path, folder: Path, missing: Iterable[str] = ()) -> None:
        self._folder, self._missing = folder, frozenset(missing)
        self._clean = folder / "clean"
        self._runs_on_clean: dict[tuple[str, ...], _Run] = {}
        shutil.copytree(root, self._clean, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        # By their content, not by their time: a patch may leave size and second as they were.
        compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode=checked-hash"]
        subprocess.run([*compiled, "src", "tests"], cwd=self._clean, check=False)

    def of(self, mutant: Mutant) -> Result:
        """Apply it to a fresh copy and run its tests there."""
        if mutant.needs in self._missing:
            return Result(mutant, Outcome.NOT_RUN, f"needs {mutant.needs}")
        tree = self._folder / "mutant"
        shutil.copytree(self._clean, tree, symlinks=True)
        try:
            mutant.apply(tree)
            before = self._on_clean(mutant)
            if before.code != 0:
                return Result(mutant, Outcome.FAILS_WITHOUT, before.said)
            after = _run(tree, mutant)
        except DoesNotApply as error:
            return Result(mutant, Outcome.DOES_NOT_APPLY, str(error))
        finally:
            shutil.rmtree(tree)
        outcome = Outcome.CAUGHT if after.code == _FAILED else Outcome.NOT_CAUGHT
        return Result(mutant, outcome, after.said)

    def _on_clean(self, mutant: Mutant) -> _Run:
        if mutant.tests not in self._runs_on_clean:
            self._runs_on_clean[mutant.tests] = _run(self._clean, mutant)
        return self._runs_on_clean[mutant.tests]


def _run(tree: Path, mutant: Mutant) -> _Run:
    longest_s = _LONGEST_WITH_KUBE_S if mutant.needs == "kube" else _LONGEST_S
    options = ["-q", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider", f"--timeout={longest_s}"]
    path = os.pathsep.join(filter(None, (str(tree / "src"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *mutant.tests],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": _WIDTH},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    failed = [line for line in lines if re.match(r"(FAILED|ERROR) ", line)]
    return _Run(done.returncode, failed[0] if failed else lines[-1] if lines else "no output")
