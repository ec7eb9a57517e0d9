"""Models are built when they are first needed, without a look at all installed packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

JOB = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {name: a}
spec: {framework: indexed, command: ["true"], roles: {worker: {}}}
"""


@pytest.mark.parametrize("before", ["None", "'logfire'"])
def test_nothing_of_it_stays(before: str) -> None:
    code = f"""
import os, sys
if {before} is not None:
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = {before}
from mooring.spec import Role, parse_job
job = parse_job({JOB!r}, "job")
assert Role(replicas=2).replicas == 2
assert os.environ.get("PYDANTIC_DISABLE_PLUGINS") == {before}
assert "pydantic.plugin._loader" not in sys.modules
assert "importlib.metadata" not in sys.modules
from pydantic import BaseModel
class Theirs(BaseModel):
    number: int = 0
assert Theirs(number="3").number == 3
import pydantic.plugin._loader as loader
assert loader.__file__  # the real one
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_expanding_a_job_builds_no_further_model() -> None:
    """Each takes milliseconds; what a job says was checked as a whole before."""
    code = f"""
from mooring import frameworks
from mooring.spec import SuccessPolicy, TrainingJob, parse_job
from mooring.spec.affinity import NodeAffinitySpec
from mooring.spec.kubernetes import PodSpec
job = parse_job({JOB!r}, "job")
frameworks.expand(job, "job")
assert frameworks.success_policy(job).roles == ("worker",)
assert TrainingJob.__pydantic_complete__
for model in (SuccessPolicy, NodeAffinitySpec, PodSpec):
    assert not model.__pydantic_complete__, model
"""
    subprocess.run([sys.executable, "-c", code], check=True)
