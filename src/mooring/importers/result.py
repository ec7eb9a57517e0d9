"""What an import gives back."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.importers.tracked import Entry, Ledger
from mooring.model.errors import Problem
from mooring.spec import TrainingJob
from mooring.spec.document import FieldPath


@dataclass(frozen=True)
class Account:
    """One document of the manifest: what became of each of its leaves."""

    source: str
    kind: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    remarks: tuple[str, ...]
    ledger: Ledger

    def line_of(self, path: FieldPath) -> int | None:
        return self.ledger.line_of(path)


@dataclass(frozen=True)
class Imported:
    """One job. `text` is its job file, None if there are problems; the first account is the
    manifest's own, others are of documents that it refers to."""

    name: str
    text: str | None
    job: TrainingJob | None
    accounts: tuple[Account, ...]
