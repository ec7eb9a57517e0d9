"""The part of a job that only pods have: what it refuses, and how a role's settings add up."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.model.errors import BadInput
from mooring.spec import parse_job
from mooring.spec.write import dump_yaml


def job_file(kubernetes: dict[str, Any], role: dict[str, Any] | None = None) -> str:
    return dump_yaml(
        {
            "apiVersion": "mooring.dev/v1",
            "kind": "TrainingJob",
            "metadata": {"name": "j"},
            "spec": {
                "framework": "indexed",
                "image": "registry.example/train:1",
                "command": ["true"],
                "roles": {"worker": {"kubernetes": role or {}}},
                "kubernetes": kubernetes,
            },
        }
    )


@pytest.mark.parametrize(
    ("section", "path", "accepted"),
    [
        ({"queue": "q"}, "spec.kubernetes.queue", "scheduler: volcano"),
        ({"scheduler": "slurm"}, "spec.kubernetes.scheduler", "kueue"),
        (
            {"volumes": [{"name": "mooring", "emptyDir": {}}]},
            "spec.kubernetes.volumes[0].name",
            "another name",
        ),
        ({"volumes": [{"emptyDir": {}}]}, "spec.kubernetes.volumes[0].name", "a volume's name"),
        (
            {"volumeMounts": [{"name": "a", "mountPath": "/dev/shm/"}]},
            "spec.kubernetes.volumeMounts[0].mountPath",
            "another path",
        ),
        (
            {"volumeMounts": [{"name": "a", "mountPath": "data"}]},
            "spec.kubernetes.volumeMounts[0].mountPath",
            "an absolute path",
        ),
        ({"labels": {"mooring.dev/job": "x"}}, "spec.kubernetes.labels", "Mooring's own"),
        ({"securityContext": {"runAsUser": 0}}, "spec.kubernetes.securityContext.runAsUser", "1"),
        ({"ttlAfterFinished": "-1s"}, "spec.kubernetes.ttlAfterFinished", "duration"),
        ({"fieldEnv": {"A": "spec.containers"}}, "fieldEnv.A", "spec.nodeName"),
        ({"configMapEnv": {"A": {"secret": "s", "key": "k"}}}, "configMapEnv.A", "configMap"),
        ({"secretEnv": {"MOORING_X": {"secret": "s", "key": "k"}}}, "secretEnv", "another name"),
    ],
)
def test_what_is_refused(section: dict[str, Any], path: str, accepted: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_job(job_file(section), "job.yaml")
    assert path in str(refused.value)
    assert accepted in str(refused.value)


def test_a_role_adds_to_what_all_roles_have() -> None:
    job = parse_job(
        job_file(
            {
                "python": "python3.9",
                "labels": {"team": "ads", "tier": "a"},
                "volumes": [{"name": "data", "emptyDir": {}}, {"name": "more", "emptyDir": {}}],
            },
            {
                "image": "registry.example/ps:2",
                "labels": {"tier": "b"},
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
            },
        ),
        "job.yaml",
    )
    pods = job.spec.kubernetes.of_role(job.spec.roles["worker"].kubernetes)
    assert (pods.image, pods.python) == ("registry.example/ps:2", "python3.9")
    assert pods.labels == {"team": "ads", "tier": "b"}
    assert [volume["name"] for volume in pods.volumes] == ["data", "more"]
    assert "persistentVolumeClaim" in pods.volumes[0]


def test_it_survives_writing_and_reading() -> None:
    job = parse_job(job_file({"suspend": True, "ttlAfterFinished": "24h"}), "job.yaml")
    assert parse_job(job.to_yaml(), "again.yaml") == job
