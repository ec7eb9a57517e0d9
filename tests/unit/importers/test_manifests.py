"""One manifest of each kind, in the style of its project's examples, and the job it becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.frameworks import expand
from mooring.importers import KINDS, import_manifests, problems_of
from mooring.spec import load_job
from support.manifests import HERE, MANIFESTS

#: manifest -> framework, members by role
JOBS: dict[str, tuple[str, dict[str, int]]] = {
    "indexed-job": ("indexed", {"worker": 4}),
    "jaxjob": ("indexed", {"worker": 2}),
    "jobset": ("indexed", {"driver": 1, "workers": 4}),
    "mpijob-v1": ("mpi", {"launcher": 1, "worker": 2}),
    "mpijob-v2beta1": ("mpi", {"launcher": 1, "worker": 2}),
    "mxjob": ("indexed", {"scheduler": 1, "server": 1, "worker": 2}),
    "paddlejob": ("indexed", {"worker": 2}),
    "pytorchjob": ("pytorch", {"master": 1, "worker": 3}),
    "pytorchjob-elastic": ("pytorch", {"worker": 2}),
    "raycluster": ("indexed", {"head": 1, "worker": 1}),
    "rayjob": ("indexed", {"head": 1, "worker": 2, "driver": 1}),
    "sparkapplication": ("indexed", {"driver": 1, "executor": 2}),
    "tfjob": ("tensorflow", {"chief": 1, "ps": 2, "worker": 2}),
    "trainjob": ("pytorch", {"worker": 4}),
    "trainjob-mpi": ("mpi", {"launcher": 1, "worker": 2}),
    "volcano": ("indexed", {"ps": 1, "worker": 2}),
    "volcano-mpi": ("mpi", {"launcher": 1, "worker": 2}),
    "xgboostjob": ("indexed", {"master": 1, "worker": 2}),
}


def test_every_kind_has_a_manifest() -> None:
    assert {path.stem for path in MANIFESTS} == set(JOBS)
    texts = "".join(path.read_text() for path in MANIFESTS)
    for kind in (one for each in KINDS.values() for one in each):
        assert any(
            f"apiVersion: {version}\nkind: {kind.name}\n" in texts for version in kind.versions
        )


@pytest.mark.parametrize("name", JOBS)
def test_the_job_is_as_it_was_reviewed(name: str) -> None:
    manifest = HERE / "manifests" / f"{name}.yaml"
    results = import_manifests([(manifest.name, manifest.read_text())])
    assert problems_of(results) == []
    assert results[0].text == (HERE / "golden" / f"{name}.yaml").read_text()


@pytest.mark.parametrize("name", JOBS)
def test_the_job_loads_and_expands(name: str) -> None:
    job = load_job(HERE / "golden" / f"{name}.yaml")
    framework, members = JOBS[name]
    assert job.spec.framework == framework
    found: dict[str, int] = {}
    for member in expand(job).members:
        found[member.id.role] = found.get(member.id.role, 0) + 1
    assert found == members


def test_several_documents_become_several_jobs() -> None:
    texts = [
        "---\n".join((HERE / "manifests" / f"{name}.yaml").read_text() for name in names)
        for names in (("tfjob", "jaxjob"), ("trainjob",))
    ]
    results = import_manifests([("a.yaml", texts[0]), ("b.yaml", texts[1])])
    assert [one.name for one in results] == ["mnist-ps", "jax-spmd", "fine-tune"]
    assert all(one.text for one in results)


def test_the_runtime_of_a_trainjob_may_be_another_file(tmp_path: Path) -> None:
    job, runtime = (HERE / "manifests" / "trainjob.yaml").read_text().split("---\n")
    [alone] = import_manifests([("job.yaml", job)])
    assert alone.text is None
    assert "spec.runtimeRef.name" in {problem.path for problem in alone.accounts[0].problems}
    [both] = import_manifests([("job.yaml", job), ("runtime.yaml", runtime)])
    assert both.text == (HERE / "golden" / "trainjob.yaml").read_text()
