"""The pages of the documentation as what they tell a reader to type, and what they say is printed.

A block of commands is fenced as `console`:

    ```console
    $ moor plan job.yaml \\
          --nodes 2
    wide-deep: 5 members on 2 nodes, colocate
    …
    ```

`$ ` begins a command, a line that ends in `\\` goes on in the next one, and all else is output. A
line of output that is `…` stands for any lines, a `…` within a line for any text; runs of spaces
count as one. A command without output in its block may print anything. After `console` may follow
`exit=2` (otherwise every command ends with 0) and `needs=…`: what is not on every machine, as a
word of NEEDS. A block of another language with `file=NAME` is a file that the reader writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Word -> what it means.
NEEDS = {
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "mpi": "Open MPI",
    "root": "root on Linux",
    "cluster": "a Kubernetes cluster",
    "docker": "Docker and a registry",
    "minutes": "many minutes or gigabytes",
    "example": "a framework; tests/local/test_examples.py runs this example",
    "service": "`moor serve` in another terminal; tests/local/test_service.py does the same",
}
#: What the tests of pages do not have.
NOT_TRIED = frozenset({"cluster", "docker", "minutes", "example", "service"})
_ANY = "…"


@dataclass(frozen=True)
class Command:
    page: Path
    line: int
    text: str
    output: tuple[str, ...]
    exit_code: int
    needs: frozenset[str]

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class File:
    """What the reader writes at `name`."""

    name: str
    text: str


class BadPage(Exception):
    """A block that does not follow the format."""


def blocks(page: Path) -> Iterator[tuple[int, str, list[str]]]:
    """The line of its first content, the words after the fence and the lines of each block."""
    info: str | None = None
    content: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            if info is None:
                info, content = line[3:].strip(), []
            else:
                yield number - len(content), info, content
                info = None
        elif info is not None:
            content.append(line)


def steps(page: Path) -> Iterator[Command | File]:
    """What a reader of this page does, in order."""
    for line, info, content in blocks(page):
        language, *words = info.split() or [""]
        options = dict(word.partition("=")[::2] for word in words)
        if language == "console":
            yield from _commands(page, line, content, options)
        elif "file" in options:
            yield File(options["file"], "\n".join(content) + "\n")


def _commands(
    page: Path, line: int, content: list[str], options: dict[str, str]
) -> Iterator[Command]:
    needs = frozenset(filter(None, options.pop("needs", "").split(",")))
    exit_code = int(options.pop("exit", "0"))
    if options or not needs <= NEEDS.keys():
        raise BadPage(f"{page.name}:{line}: {options or needs}; accepted: exit=, needs= {[*NEEDS]}")
    at, text, output = 0, "", []
    for number, shown in enumerate([*content, "$ "], start=line):
        if text.endswith("\\"):
            text += "\n" + shown
        elif shown.startswith("$ "):
            if text:
                yield Command(page, at, text, tuple(output), exit_code, needs)
            at, text, output = number, shown[2:], []
        elif not text:
            raise BadPage(f"{page.name}:{number}: output before the first command")
        else:
            output.append(shown)


def difference(shown: tuple[str, ...], printed: str) -> str | None:
    """What a page shows and a command did not print, or None if they agree."""
    if not any(line.strip() for line in shown):
        return None
    wanted = [_squeezed(line) for line in shown]
    while wanted and not wanted[-1]:
        wanted.pop()
    got = [_squeezed(line) for line in printed.splitlines()]
    while got and not got[-1]:
        got.pop()
    # at[i]: whether the first lines of `wanted` can be the first i lines of `got`.
    at = [True] + [False] * len(got)
    for number, line in enumerate(wanted):
        before = at
        if line == _ANY:
            first = before.index(True)
            at = [i >= first for i in range(len(got) + 1)]
        else:
            pattern = re.compile(".*".join(map(re.escape, line.split(_ANY))))
            at = [False] + [
                before[i] and pattern.fullmatch(text) is not None for i, text in enumerate(got)
            ]
        if not any(at):
            reached = before.index(True)
            return (
                f"shown:   {shown[number]}\n"
                f"printed: {got[reached] if reached < len(got) else '(nothing more)'}"
            )
    return None if at[-1] else f"not shown: {got[[i for i, ok in enumerate(at) if ok][-1]]}"


def _squeezed(line: str) -> str:
    return " ".join(line.split())
