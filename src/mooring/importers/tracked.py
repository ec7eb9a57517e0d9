"""A manifest that notices what nobody read.

Every scalar (and every empty list or mapping) of a manifest is a leaf. Whoever reads one says what
became of it: mapped, dropped with a reason, or refused. `LeafLedger.finish` refuses every leaf that
nobody spoke for, so that a field which the code has never heard of cannot get lost: forgetting one
is an error of the import, not a silent change of the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from mooring.model.errors import Problem
from mooring.spec.base import describe
from mooring.spec.document import Document, FieldPath, format_path


class LeafOutcome(StrEnum):
    """What became of a leaf."""

    MAPPED = "mapped"
    DROPPED = "dropped"
    REFUSED = "error"


@dataclass(frozen=True)
class LeafEntry:
    """One leaf of the manifest. `to`: fields of the job file; `note`: the reason, or a remark;
    of a refusal: what would be accepted."""

    path: FieldPath
    outcome: LeafOutcome
    to: tuple[FieldPath, ...] = ()
    note: str = ""
    found: str = ""


@dataclass(frozen=True)
class Drop:
    """A field that the user agrees to lose: a path as messages print it; `*` is any one part."""

    text: str

    def covers(self, path: FieldPath) -> bool:
        """Whether the path is this field or lies below it."""
        return self._pattern().match(format_path(path)) is not None

    def _pattern(self) -> re.Pattern[str]:
        parts = re.split(r"(\[\*\]|\*)", self.text)
        wild = {"[*]": r"\[\d+\]", "*": r"(?:'[^']*'|[^.\[]+)"}
        body = "".join(wild.get(part) or re.escape(part) for part in parts)
        return re.compile(rf"{body}(?=$|[.\[])")


class LeafLedger:
    """What became of every leaf of one document."""

    def __init__(self, document: Document, drops: Iterable[Drop] = ()) -> None:
        self._document = document
        self._drops = tuple(drops)
        self._entries: dict[FieldPath, LeafEntry] = {}
        self._entered: set[FieldPath] = set()
        self._looked_at: set[FieldPath] = set()
        self._problems: list[Problem] = [problem for _, problem in document.problems]
        self.remarks: list[str] = []

    @property
    def root(self) -> Field:
        return Field(self, (), self._document.data)

    def line_of(self, path: FieldPath) -> int | None:
        return self._document.line_of(path)

    def dropped_by_user(self, path: FieldPath) -> Drop | None:
        return next((drop for drop in self._drops if drop.covers(path)), None)

    def enter(self, path: FieldPath) -> None:
        self._entered.add(path)

    def look_at(self, path: FieldPath) -> None:
        self._looked_at.add(path)

    def has_looked_at(self, path: FieldPath) -> bool:
        return path in self._looked_at

    def record(self, entry: LeafEntry) -> None:
        """A refusal stays; two mappings of one leaf add up; otherwise the last word counts."""
        known = self._entries.get(entry.path)
        if known is not None and known.outcome is LeafOutcome.REFUSED:
            return
        if known is not None and known.outcome is entry.outcome is LeafOutcome.MAPPED:
            to = tuple(dict.fromkeys((*known.to, *entry.to)))
            entry = replace(entry, to=to, note=entry.note or known.note)
        self._entries[entry.path] = entry

    def missing(self, path: FieldPath, found: str, accepted: str) -> None:
        """A problem with something that is not there, and so is no leaf."""
        self._problems.append(
            Problem(format_path(path), found, accepted, self._document.line_of(path))
        )

    def remark(self, sentence: str) -> None:
        """What the job does differently although no field says so."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    def retarget(self, old: FieldPath, new: FieldPath) -> None:
        """Fields of the job have moved from `old` to `new`."""
        for path, entry in self._entries.items():
            to = tuple(new + one[len(old) :] if one[: len(old)] == old else one for one in entry.to)
            if to != entry.to:
                self._entries[path] = replace(entry, to=tuple(dict.fromkeys(to)))

    def targets(self) -> Iterator[tuple[FieldPath, FieldPath]]:
        """(leaf, field of the job) for everything that was mapped."""
        for entry in self._entries.values():
            if entry.outcome is LeafOutcome.MAPPED:
                for to in entry.to:
                    yield entry.path, to

    def finish(self) -> tuple[list[LeafEntry], list[Problem]]:
        """Every leaf with its outcome, in the order of the file, and every problem."""
        entries = [self._settled(path, value) for path, value in leaves(self._document.data)]
        refused = [
            Problem(
                format_path(entry.path),
                entry.found,
                entry.note,
                self._document.line_of(entry.path),
            )
            for entry in entries
            if entry.outcome is LeafOutcome.REFUSED
        ]
        return entries, [*self._problems, *refused]

    def _settled(self, path: FieldPath, value: Any) -> LeafEntry:
        drop = self.dropped_by_user(path)
        if drop is not None:
            return LeafEntry(path, LeafOutcome.DROPPED, note=f"--drop {drop.text}")
        known = self._entries.get(path)
        if known is not None:
            return known
        if value is None or (value in ({}, []) and path in self._entered):
            return LeafEntry(path, LeafOutcome.DROPPED, note="it says nothing")
        return LeafEntry(
            path,
            LeafOutcome.REFUSED,
            note="a field that the import knows (to lose it: --drop)",
            found=describe(value),
        )


@dataclass(frozen=True)
class Field:
    """A place in the manifest; its value is None where there is nothing."""

    ledger: LeafLedger
    path: FieldPath
    value: Any

    @property
    def present(self) -> bool:
        return self.value is not None

    def __getitem__(self, key: str) -> Field:
        """The field below, present or not."""
        path = (*self.path, key)
        self.ledger.look_at(path)
        value = self._mapping().get(key)
        if value is None or self.ledger.dropped_by_user(path):
            return Field(self.ledger, path, None)
        return Field(self.ledger, path, value)

    def fields(self) -> list[tuple[str, Field]]:
        """The fields of a mapping by name."""
        found = [(key, self[key]) for key in self._mapping()]
        return [(key, field) for key, field in found if field.present]

    def only(self, *keys: str) -> Field:
        """The same place with these of its fields alone; absent if it has none of them."""
        kept = {key: self[key].value for key in keys if self[key].present}
        return Field(self.ledger, self.path, kept or None)

    def items(self) -> list[Field]:
        """The items of a list."""
        if self.value is None:
            return []
        self.ledger.enter(self.path)
        if not isinstance(self.value, list):
            self.refuse("a list")
            return []
        items = [
            Field(self.ledger, (*self.path, index), item) for index, item in enumerate(self.value)
        ]
        for item in items:
            self.ledger.look_at(item.path)
        return [
            item for item in items if item.present and not self.ledger.dropped_by_user(item.path)
        ]

    def map(self, *to: FieldPath, note: str = "") -> Any:
        """Say that it is carried over, and return it without what the user drops.

        Of a list or mapping that is not carried over as it is, say `understood` instead.
        """
        for path, _ in self._leaves():
            self.ledger.record(LeafEntry(path, LeafOutcome.MAPPED, to, note))
        return self.pruned()

    def understood(self, *to: FieldPath, note: str = "") -> None:
        """Say that what was made of it is there: only the leaves that somebody has looked at."""
        for path, _ in self._leaves():
            if self.ledger.has_looked_at(path):
                self.ledger.record(LeafEntry(path, LeafOutcome.MAPPED, to, note))

    def drop(self, reason: str) -> None:
        for path, _ in self._leaves():
            self.ledger.record(LeafEntry(path, LeafOutcome.DROPPED, note=reason))

    def refuse(self, accepted: str, found: str = "") -> None:
        for path, value in self._leaves():
            self.ledger.record(
                LeafEntry(path, LeafOutcome.REFUSED, note=accepted, found=found or describe(value))
            )

    def text(self) -> str | None:
        """The text; a value of another kind is refused."""
        if self.value is None or isinstance(self.value, str):
            return self.value
        self.refuse("a text")
        return None

    def whole(self) -> int | None:
        """The whole number; a value of another kind is refused."""
        if self.value is None:
            return None
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return self.value
        self.refuse("a whole number")
        return None

    def flag(self) -> bool:
        """Whether it is true; a value of another kind is refused."""
        if self.value is None or isinstance(self.value, bool):
            return bool(self.value)
        self.refuse("true or false")
        return False

    def choice(self, *accepted: str) -> str | None:
        """One of these texts; any other value is refused."""
        text = self.text()
        if text is None or text in accepted:
            return text
        self.refuse(f"one of: {', '.join(accepted)}")
        return None

    def pruned(self) -> Any:
        """The plain value without what the user drops and what is null."""
        if isinstance(self.value, dict):
            return {key: field.pruned() for key, field in self.fields()}
        if isinstance(self.value, list):
            return [item.pruned() for item in self.items()]
        return self.value

    def _mapping(self) -> dict[str, Any]:
        if self.value is None:
            return {}
        self.ledger.enter(self.path)
        if isinstance(self.value, dict):
            return self.value
        self.refuse("a mapping")
        return {}

    def _leaves(self) -> Iterator[tuple[FieldPath, Any]]:
        if self.value is not None:
            yield from leaves(self.value, self.path)


def leaves(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Scalars, and lists and mappings with nothing in them."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    elif isinstance(value, list) and value:
        for index, below in enumerate(value):
            yield from leaves(below, (*path, index))
    else:
        yield path, value
