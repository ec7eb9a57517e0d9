"""Which finding comes first: a cause before what it explains, then what frees most of the time.

Pure. A worker that is only far from a full server is slow because of the server: to name it first
would send the reader to the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mooring.doctor.finding import Finding

#: A cause must be worth at least this part of what it is said to explain.
_LEAST_PART = 0.3


@dataclass(frozen=True)
class Causes:
    """Findings that may lie behind one: those of `anywhere` wherever they are (a full card slows
    down all that talk through it), those of `same_member` if they are of a member in common."""

    anywhere: frozenset[str] = frozenset()
    same_member: frozenset[str] = frozenset()


def in_order(findings: Sequence[Finding], causes: Mapping[str, Causes]) -> tuple[Finding, ...]:
    """With each finding linked to those that explain it, which come before it."""
    heaviest = sorted(findings, key=lambda finding: -finding.found.weight)
    linked = [replace(finding, because=_reasons(finding, heaviest, causes)) for finding in heaviest]
    ordered: list[Finding] = []
    for finding in linked:
        _place(finding, linked, ordered, frozenset())
    return tuple(ordered)


def _reasons(
    symptom: Finding, findings: Iterable[Finding], causes: Mapping[str, Causes]
) -> tuple[str, ...]:
    may = causes.get(symptom.id, Causes())
    return tuple(
        dict.fromkeys(
            cause.id
            for cause in findings
            if cause.found.weight >= _LEAST_PART * symptom.found.weight
            and (
                cause.id in may.anywhere
                or (
                    cause.id in may.same_member
                    and set(cause.found.members) & set(symptom.found.members)
                )
            )
        )
    )


def _place(
    finding: Finding, findings: Sequence[Finding], ordered: list[Finding], above: frozenset[str]
) -> None:
    """Its causes first, heaviest first; two that explain each other stay by weight."""
    if finding in ordered:
        return
    for cause in findings:
        if cause.id in finding.because and cause.id not in above and cause.id != finding.id:
            _place(cause, findings, ordered, above | {finding.id})
    if finding not in ordered:
        ordered.append(finding)
