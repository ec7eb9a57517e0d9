"""Remedies as edits of a job file: one finding's diff, or all of them at once.

A remedy that would leave a job that nobody could run is not offered: the edited text is checked as
`moor validate` checks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mooring import frameworks
from mooring.doctor.finding import Diagnosis, Finding
from mooring.model.errors import BadInput
from mooring.spec import parse_job
from mooring.spec.edit import difference, edit


@dataclass(frozen=True)
class Fixed:
    """A job file with remedies in it: which findings they are of, and what could not be done."""

    text: str
    applied: tuple[Finding, ...]
    refused: tuple[tuple[Finding, str], ...] = ()


def fix(text: str, findings: Iterable[Finding], source: str) -> Fixed:
    """The text with every remedy that it can carry, worst finding first.

    Of two remedies for the same field the first wins: the second was computed without it.
    """
    applied: list[Finding] = []
    refused: list[tuple[Finding, str]] = []
    taken: set[tuple[str | int, ...]] = set()
    for finding in findings:
        changes = [change for change in finding.found.remedy.changes if change.path not in taken]
        if not changes:
            continue
        try:
            changed = edit(text, changes, source)
            frameworks.expand(parse_job(changed, source), source)
        except BadInput as error:
            refused.append((finding, str(error.problems[0])))
            continue
        if changed != text:
            text = changed
            applied.append(finding)
            taken |= {change.path for change in changes}
    return Fixed(text, tuple(applied), tuple(refused))


def patches(diagnosis: Diagnosis, text: str, source: str) -> tuple[str, ...]:
    """What the remedy of each finding alone would change in the job file: a diff, or nothing."""
    return tuple(
        difference(text, fix(text, [finding], source).text, source)
        for finding in diagnosis.findings
    )
