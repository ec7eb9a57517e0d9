"""What a stack is about, by the rules of table.toml. Pure but for reading that table once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from mooring.stacks.categories import INPUT, Category

_IMPORTS = "<frozen importlib"
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3")


@dataclass(frozen=True)
class Frame:
    """One call; `text` is its line of the program where somebody has looked it up."""

    function: str
    file: str
    line: int = 0
    text: str = ""

    @property
    def name(self) -> str:
        """Without its class or the function that it was made in: older Pythons do not tell them."""
        return self.function.rsplit(".", 1)[-1]

    @property
    def own(self) -> bool:
        """Of the user's program, rather than of a library or the interpreter."""
        return not self.file.startswith("<") and not any(one in self.file for one in _LIBRARIES)


#: From the outermost call inwards.
Stack = tuple[Frame, ...]


@dataclass(frozen=True)
class ClassifiedStack:
    """What a stack is about, and the innermost line of the user's program that led there."""

    category: Category
    where: str = ""


@dataclass(frozen=True)
class _Rule:
    category: Category
    files: tuple[str, ...]
    functions: frozenset[str]
    own: bool = False

    def names(self, frame: Frame) -> bool:
        if frame.name == "<module>":
            return False
        if "*" not in self.functions and frame.name not in self.functions:
            return False
        if self.own:
            return frame.own
        return any(part in frame.file for part in self.files)


@dataclass(frozen=True)
class _Line:
    category: Category
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class RuleTable:
    rules: tuple[_Rule, ...]
    lines: tuple[_Line, ...]
    unless: re.Pattern[str]
    training: _Rule


@cache
def read_table() -> RuleTable:
    text = resources.files("mooring.stacks").joinpath("table.toml").read_text(encoding="utf-8")
    data: dict[str, Any] = tomllib.loads(text)
    return RuleTable(
        rules=tuple(
            _Rule(
                Category(row["category"]),
                tuple(row.get("files", ())),
                frozenset(row["functions"]),
                row.get("own", False),
            )
            for row in data["rule"]
        ),
        lines=tuple(
            _Line(Category(row["category"]), re.compile("|".join(row["patterns"])))
            for row in data["line"]
        ),
        unless=re.compile("|".join(data["unless"]["patterns"])),
        training=_Rule(
            Category.COMPUTE,
            tuple(data["training"]["files"]),
            frozenset(data["training"]["functions"]),
        ),
    )


def classify(stacks: Iterable[Stack]) -> list[ClassifiedStack]:
    """Each stack's category; all of one process together, for they tell which parts train."""
    table = read_table()
    known = list(stacks)
    around = {
        (frame.function, frame.file)
        for stack in known
        for place in _training_at(stack, table)
        for frame in stack[:place]
    }
    return [_seen(stack, table, around) for stack in known]


def _training_at(stack: Stack, table: RuleTable) -> list[int]:
    """Where a training step begins in the stack: one place, or none."""
    for place, frame in enumerate(stack):
        if table.training.names(frame):
            return [place]
    return []


def step_call(stack: Stack) -> str:
    """The call in which members meet: of a collective, or of the step of training that has them."""
    table = read_table()
    meets = [rule for rule in table.rules if rule.category is Category.COMMUNICATION]
    for frame in stack:
        if table.training.names(frame) or any(rule.names(frame) for rule in meets):
            return frame.name
    return ""


def _seen(stack: Stack, table: RuleTable, around: set[tuple[str, str]]) -> ClassifiedStack:
    if any(frame.file.startswith(_IMPORTS) for frame in stack):
        return ClassifiedStack(Category.COMPUTE)
    category: Category | None = None
    for frame in stack:
        found = _of_frame(frame, table, around)
        if found is None:
            continue
        if category is None:
            category = found
            if category not in INPUT:
                break
        elif found in INPUT:
            category = found
    if category is None:
        category = _of_line(stack[-1], table) if stack else Category.COMPUTE
    return ClassifiedStack(category, where(stack))


def _of_frame(frame: Frame, table: RuleTable, around: set[tuple[str, str]]) -> Category | None:
    for rule in table.rules:
        if rule.names(frame) and not (rule.own and (frame.function, frame.file) in around):
            return rule.category
    return None


def _of_line(frame: Frame, table: RuleTable) -> Category:
    if frame.own and frame.text and not table.unless.search(frame.text):
        for line in table.lines:
            if line.pattern.search(frame.text):
                return line.category
    return Category.COMPUTE


def where(stack: Sequence[Frame]) -> str:
    """The innermost line of the user's program: `main (train.py:30)`."""
    for frame in reversed(stack):
        if frame.own:
            return f"{frame.name} ({frame.file.rsplit('/', 1)[-1]}:{frame.line})"
    return ""
