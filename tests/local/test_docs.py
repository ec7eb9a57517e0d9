"""Every command of the documentation, typed as it stands there, prints what the page says.

The commands of a page are typed one after the other into one shell, in a clone. The format, and
what marks a command that needs more than a machine, is in `support/pages.py`. Those that nobody
tries are listed: in the reason of a page that is skipped, otherwise in its output (`pytest -rP`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from support.pages import NEEDS, NOT_TRIED, Command, File, blocks, steps
from support.reader import ROOT, Reader

#: Generated pages show help and fields; decisions and figures were true when they were taken.
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/**/*.md")]
    if not page.read_text(encoding="utf-8").startswith("<!-- Written by")
)
FRAMEWORKS = frozenset({"pytorch", "tensorflow", "mpi"})
MISSING = NOT_TRIED if os.geteuid() == 0 else NOT_TRIED | {"root"}
#: How a line begins that a reader would take for something to type.
TYPED = re.compile(r"\s*(\$ |(sudo )?(moor|kubectl|helm|docker|make|pip|pipx|uvx?|pytest) )")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands(page: Path) -> list[Command]:
    return [step for step in steps(page) if isinstance(step, Command)]


def marked(page: Path) -> object:
    needed = frozenset[str]().union(*(command.needs for command in commands(page)))
    return pytest.param(
        page, id=name(page), marks=[pytest.mark.framework] * bool(needed & FRAMEWORKS)
    )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_command_stands_outside_of_a_block_of_commands(page: Path) -> None:
    inside = {
        line + offset for line, _, content in blocks(page) for offset in range(-1, len(content) + 1)
    }
    stray = [
        f"{name(page)}:{number}: {line}"
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
        if number not in inside and line.startswith("    ") and TYPED.match(line)
    ]
    for line, info, content in blocks(page):
        if info.split()[:1] != ["console"]:
            stray += [f"{name(page)}:{line}: {text}" for text in content if TYPED.match(text)]
    assert stray == []


@pytest.mark.parametrize("page", [marked(page) for page in PAGES if commands(page)])
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    not_tried: list[str] = []
    wrong: list[str] = []
    with Reader(tmp_path) as reader:
        for step in steps(page):
            if isinstance(step, File):
                reader.write(step)
            elif missing := step.needs & MISSING:
                words = ", ".join(NEEDS[word] for word in sorted(missing))
                not_tried.append(f"{name(page)}:{step.line} needs {words}: {step.text}")
            elif problem := reader.disagrees(step):
                wrong.append(f"{name(page)}:{step.line}: $ {step.text}\n{problem}")
    assert not wrong, "\n\n".join(wrong)
    if not_tried and len(not_tried) == len(commands(page)):
        pytest.skip("; ".join(not_tried))
    print("not tried:", *not_tried, sep="\n  ")
