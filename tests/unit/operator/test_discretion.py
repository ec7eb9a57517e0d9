"""Messages that others read do not hold what stands in variables and arguments."""

from __future__ import annotations

import pytest

from mooring.backends.kubernetes.jobs.discretion import discreet_text
from mooring.model.errors import BadInput, Problem


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("spec.env.TOKEN", "spec.env.TOKEN"),
        ("spec.env.'TOKEN=canary'", "spec.env"),
        ("spec.command[3]", "spec.command[3]"),
        ("spec.roles.worker.env.A", "spec.roles.worker.env.A"),
        ("spec.roles.env.command[0]", "spec.roles.env.command[0]"),
        ("spec.env.A\ncanary", "spec.env"),
        ("spec.env", "spec.env"),
    ],
)
def test_variables_and_arguments_are_not_shown(path: str, shown: str) -> None:
    told = discreet_text(BadInput("a/j", [Problem(path, "the text 'canary'", "a text")]))
    assert told == f"a/j: {shown}: found something that is not shown here; accepted: a text"


@pytest.mark.parametrize(
    "path", ["spec.image", "spec.environment", "spec.commands[0]", "spec.kubernetes.envFrom[0]"]
)
def test_other_fields_are(path: str) -> None:
    error = BadInput("a/j", [Problem("spec.pool", "'X'", "a name"), Problem(path, "'x'", "a name")])
    assert discreet_text(error) == str(error)
