"""200 hostile texts in every text field of a job: refused in words, or carried as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.backends.kubernetes.jobs.admission import anywhere
from mooring.backends.kubernetes.jobs.gang_manifests import pod_manifests
from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import parse_training_job
from mooring.backends.kubernetes.objects.pod_manifest import Image, Owner
from mooring.model.errors import BadInput
from mooring.model.plan import Plan
from mooring.spec.schema import job_schema
from support.hostile import hostile
from support.text_fields import put, text_fields

JOB: dict[str, Any] = {
    "apiVersion": "mooring.dev/v1",
    "kind": "TrainingJob",
    "metadata": {"name": "j", "namespace": "team", "uid": "uid-1"},
    "spec": {
        "framework": "indexed",
        "image": "registry.example/train:1",
        "command": ["train"],
        "roles": {"worker": {"replicas": 1}},
    },
}
pytestmark = pytest.mark.slow

FIELDS = text_fields(job_schema())
LAUNCHER = ["/mooring/launcher.pyz", "pod"]


def test_the_fields_are_known() -> None:
    assert len(FIELDS) > 60
    assert {"spec.roles.* (key)", "spec.roles.*.command[]", "spec.kubernetes.python"} <= set(FIELDS)


@pytest.mark.parametrize("field", FIELDS)
def test_a_hostile_text_is_refused_or_carried(field: str, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    accepted = 0
    for text in hostile(mark):
        try:
            pods = pods_of(put(JOB, field, text))
        except BadInput as refused:
            assert refused.problems
            continue
        accepted += 1
        assert len(pods) == 1
        first, main = pods[0]["spec"]["initContainers"][0], pods[0]["spec"]["containers"][0]
        # What is started is the launcher, with the program's words in a document.
        assert first["command"][0] == "cp"
        assert main["command"][1:] == LAUNCHER
        assert "args" not in main
        [contract] = [one["value"] for one in main["env"] if one["name"] == "MOORING_CONTRACT"]
        argv = json.loads(contract.replace("$$", "$"))["argv"]
        command = field.endswith("command[]")
        assert argv == ([text] if command else ["train"])
    assert not mark.exists()
    print(f"{field}: {accepted} accepted")


def pods_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    parsed = parse_training_job(job)
    plan: Plan = anywhere(parsed.gang)
    record = admit(TrainingJobRecord(), plan, parsed.policy, 0.0)
    owner = Owner(job["metadata"]["name"], "team", "uid-1")
    members = [member.id for member in parsed.gang.members]
    image = Image("registry.example/mooring:1")
    return list(pod_manifests(parsed, owner, record, members, image, has_files=False))
