"""Findings: a named cause of lost time with its evidence, and what to do about it.

Values only. What a check finds (`Found`) carries figures and a remedy; who it is and why it matters
comes from the check itself, so that a page about it and a finding of it cannot differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mooring.account import Account
from mooring.record.journal import JsonValue
from mooring.spec.edit import Change


class Confidence(StrEnum):
    """certain: the figure is the cause; likely: the cause fits best; possible: worth a look."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


@dataclass(frozen=True)
class Figure:
    """One number of the evidence and where it was read."""

    what: str
    value: float | str
    unit: str = ""
    source: str = ""
    members: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        value = self.value if isinstance(self.value, str) else _short(self.value)
        return f"{value} {self.unit}".strip()


@dataclass(frozen=True)
class Gain:
    """How many times faster the job may get; `basis` says how that is known."""

    low: float
    high: float
    basis: str

    @classmethod
    def of_freed(cls, least: float, most: float, basis: str) -> Gain:
        """What freeing a share of a step is worth: at least `least` of it and at most `most`.

        Looks and counters do not tell 90 % from all of it: ten times is the most that is said.
        """
        low, high = (1 / (1 - min(0.9, max(0.0, share))) for share in (least, most))
        return cls(low, max(low, high), basis)

    @property
    def said(self) -> str:
        if self.low == 1.0 < self.high:
            return f"at most {self.high:.2g}×"
        if self.low == self.high:
            return f"{self.low:.2g}×"
        return f"{self.low:.2g} to {self.high:.2g}×"


@dataclass(frozen=True)
class Remedy:
    """What to do: changes that the job file can carry, or a change of code with a ready snippet.

    `does` is a sentence. Without changes the spec cannot carry it.
    """

    does: str
    changes: tuple[Change, ...] = ()
    code: str = ""
    where: str = ""
    """Which program or setting the code belongs to."""


@dataclass(frozen=True)
class Found:
    """What one check found. `weight`: the share of time that is lost, 0 to 1, to compare findings.

    A weight of 1 is reserved for what may end the run.
    """

    says: str
    evidence: tuple[Figure, ...]
    remedy: Remedy
    confidence: Confidence
    weight: float
    members: tuple[str, ...] = ()
    gain: Gain | None = None


@dataclass(frozen=True)
class Finding:
    """A cause with its name: what a check is, and what it found."""

    id: str
    title: str
    why: str
    found: Found
    because: tuple[str, ...] = ()
    """Findings of the same diagnosis that explain this one, by their ids."""

    def document(self, patch: str = "") -> dict[str, JsonValue]:
        """As `moor doctor --json` prints it; `patch` is its remedy as a diff of the job file."""
        found, remedy = self.found, self.found.remedy
        return {
            "id": self.id,
            "title": self.title,
            "says": found.says,
            "why": self.why,
            "members": list(found.members),
            "because": list(self.because),
            "weight": round(found.weight, 4),
            "confidence": found.confidence.value,
            "evidence": [
                {
                    "what": figure.what,
                    "value": figure.value,
                    "unit": figure.unit,
                    "source": figure.source,
                    "members": list(figure.members),
                }
                for figure in found.evidence
            ],
            "remedy": {
                "does": remedy.does,
                "changes": [change.document() for change in remedy.changes],
                "code": remedy.code,
                "where": remedy.where,
                "patch": patch,
            },
            "gain": None
            if found.gain is None
            else {"low": found.gain.low, "high": found.gain.high, "basis": found.gain.basis},
        }


class CheckAnswer(StrEnum):
    """What a check came to. Only `excluded` means that it is surely not that."""

    FOUND = "found"
    EXCLUDED = "excluded"
    NOT_RECOGNISED = "not recognised"
    """It could be seen, but much of the time went into what has no known name."""
    UNSEEN = "cannot be seen"
    NOT_ASKED = "does not apply"


@dataclass(frozen=True)
class Checked:
    """One check that was made; `unknown` is why it could not be answered."""

    id: str
    title: str
    answer: CheckAnswer = CheckAnswer.EXCLUDED
    findings: int = 0
    unknown: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The findings, causes before what they explain and then worst first, and all that was looked
    at."""

    of: str
    findings: tuple[Finding, ...]
    checked: tuple[Checked, ...]
    account: Account = Account()
    """Where a step's time goes; without ranks of what is no run."""

    def with_those_of(self, other: Diagnosis) -> Diagnosis:
        """Both looks at once: this one's findings, then the other's."""
        findings = (*self.findings, *other.findings)
        return replace(self, findings=findings, checked=(*self.checked, *other.checked))

    def document(self, patches: Sequence[str] = ()) -> dict[str, JsonValue]:
        told = patches or [""] * len(self.findings)
        return {
            "of": self.of,
            "account": self.account.document(),
            "findings": [
                finding.document(patch) for finding, patch in zip(self.findings, told, strict=True)
            ],
            "checked": [
                {
                    "id": one.id,
                    "title": one.title,
                    "findings": one.findings,
                    "answer": one.answer.value,
                    "unknown": one.unknown,
                }
                for one in self.checked
            ],
        }


def _short(value: float) -> str:
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
