"""A diagnosis as one HTML file: no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence

import jinja2

from mooring.account import words
from mooring.doctor.finding import Diagnosis


def render_html(diagnosis: Diagnosis, patches: Sequence[str]) -> str:
    """`patches`: the remedy of each finding as a diff of the job file."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mooring.doctor", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("doctor.html.j2").render(
        diagnosis=diagnosis,
        account="\n".join(words.lines(diagnosis.account)),
        findings=list(zip(diagnosis.findings, patches, strict=True)),
    )
