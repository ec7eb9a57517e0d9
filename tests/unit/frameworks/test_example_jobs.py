"""Every example is a job that validates, expands, and names files that exist."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mooring.frameworks import expand
from mooring.spec import TrainingJob

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/job.yaml")), ids=lambda p: p.parent.name)
def test_example(path: Path) -> None:
    job = TrainingJob.model_validate(yaml.safe_load(path.read_text()))
    gang = expand(job, str(path))
    assert job.metadata.name == path.parent.name
    assert job.spec.files
    for name in job.spec.files:
        assert (path.parent / name).is_file()
    scripts = {part for member in gang.members for part in member.argv if part.endswith(".py")}
    assert scripts
    assert scripts <= set(job.spec.files)
    assert (path.parent / "README.md").is_file()


def test_the_plain_variant_is_a_job_too() -> None:
    path = EXAMPLES / "wide-deep" / "plain.yaml"
    job = TrainingJob.model_validate(yaml.safe_load(path.read_text()))
    assert len(expand(job, str(path)).members) == 5
    assert all((path.parent / name).is_file() for name in job.spec.files)


def test_there_are_examples() -> None:
    names = {path.parent.name for path in EXAMPLES.glob("*/job.yaml")}
    assert names >= {"wide-deep", "tf-allreduce", "pytorch-ddp", "mpi-allreduce", "indexed"}
