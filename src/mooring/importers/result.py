"""What an import gives back."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.importers.tracked import LeafEntry, LeafLedger
from mooring.model.errors import Problem
from mooring.spec import TrainingJob
from mooring.spec.document import FieldPath


@dataclass(frozen=True)
class DocumentAccount:
    """One document of the manifest: what became of each of its leaves."""

    source: str
    kind: str
    entries: tuple[LeafEntry, ...]
    problems: tuple[Problem, ...]
    remarks: tuple[str, ...]
    ledger: LeafLedger

    def line_of(self, path: FieldPath) -> int | None:
        return self.ledger.line_of(path)


@dataclass(frozen=True)
class Imported:
    """One job. `text` is its job file, None if there are problems; the first account is the
    manifest's own, others are of documents that it refers to."""

    name: str
    text: str | None
    job: TrainingJob | None
    accounts: tuple[DocumentAccount, ...]
