"""A diagnosis as one HTML file: no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.account import words
from mooring.doctor.finding import Diagnosis
from mooring.report.page import render_page


def render_html(diagnosis: Diagnosis, patches: Sequence[str]) -> str:
    """`patches`: the remedy of each finding as a diff of the job file."""
    return render_page(
        "doctor/doctor.html.j2",
        diagnosis=diagnosis,
        account="\n".join(words.lines(diagnosis.account)),
        findings=list(zip(diagnosis.findings, patches, strict=True)),
    )
