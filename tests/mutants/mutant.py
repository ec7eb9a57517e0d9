"""A mutant: a small patch that takes one defence out of the product, and the tests that notice.

A file `NN-name.patch` is a unified diff behind a head of its own:

    Row: the row of docs/reliability.md that says what the defence is for
    Breaks: what is wrong with the product once the patch is applied
    Tests: arguments of pytest; they pass without the patch and fail with it
    Needs: root, or kube (a real API server); left out if nothing is needed

Its tests run on machines that others use: none of them calls `moor clean`, which without its
defences could end what is somebody else's.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
NEEDS = ("", "root", "kube")
_FIELDS = ("Row", "Breaks", "Tests")


class BadPatch(ValueError):
    """A file whose head does not say what it must."""


class DoesNotApply(Exception):
    """The code that a patch changes is no longer what it was."""

    def __init__(self, mutant: Mutant, why: str) -> None:
        files = ", ".join(mutant.files)
        super().__init__(
            f"{mutant.path.name} no longer applies to {files}: {why}. Take the same defence out of "
            "today's code, and put the output of `git diff` behind the head of the patch; delete "
            "the patch if that defence is gone for good"
        )


@dataclass(frozen=True)
class Mutant:
    """One patch. `tests` are arguments of pytest, relative to the root of the tree."""

    path: Path
    row: str
    breaks: str
    tests: tuple[str, ...]
    needs: str

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def files(self) -> list[str]:
        """The files that it changes, relative to the root of the tree."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/")]

    def check(self, tree: Path) -> None:
        """Raises DoesNotApply; changes nothing."""
        self._git_apply(tree, "--check")

    def apply(self, tree: Path) -> None:
        """Change the tree. Raises DoesNotApply, and leaves it as it was."""
        self._git_apply(tree)

    def _git_apply(self, tree: Path, *options: str) -> None:
        done = subprocess.run(
            ["git", "apply", *options, str(self.path.absolute())],
            cwd=tree,
            # Inside a repository git would take paths as the repository's, and pass others over.
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.absolute().parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            raise DoesNotApply(self, said[-1].removeprefix("error: ") if said else "git apply")


def read_mutant(path: Path) -> Mutant:
    """Raises BadPatch for a head without a field, or with one that is not known."""
    head: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(("--- ", "diff ")):
            break
        name, _, value = line.partition(": ")
        if name not in (*_FIELDS, "Needs") or not value.strip():
            accepted = f"{', '.join(_FIELDS)} or Needs, each with a value"
            raise BadPatch(f"{path.name}: found {line!r}; accepted: {accepted}")
        head[name] = value.strip()
    missing = [name for name in _FIELDS if name not in head]
    if missing:
        raise BadPatch(f"{path.name}: no line {missing[0]!r} before the diff")
    needs = head.get("Needs", "")
    if needs not in NEEDS:
        raise BadPatch(f"{path.name}: Needs: found {needs!r}; accepted: root or kube")
    return Mutant(path, head["Row"], head["Breaks"], tuple(shlex.split(head["Tests"])), needs)


def read_mutants(folder: Path = FOLDER) -> list[Mutant]:
    """All of a folder, by name."""
    return [read_mutant(path) for path in sorted(folder.glob("*.patch"))]
