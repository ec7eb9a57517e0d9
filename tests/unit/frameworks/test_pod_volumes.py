"""Which of a pod's volumes matter for placing, and what is read from them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.frameworks import expand
from mooring.frameworks.pod_volumes import volumes_of
from mooring.model.errors import BadInput
from mooring.model.volumes import Access, Claim, Volume
from mooring.spec.kubernetes import PodSpec
from mooring.spec.load import parse_job


def read(**source: Any) -> tuple[Volume, ...]:
    return volumes_of(PodSpec(volumes=({"name": "v", **source},)))


@pytest.mark.parametrize(
    ("source", "volume"),
    [
        ({"persistentVolumeClaim": {"claimName": "data"}}, Volume("data")),
        (
            {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
            Volume("data", read_only=True),
        ),
        ({"gcePersistentDisk": {"pdName": "d"}}, Volume(disk="gcePersistentDisk d")),
        (
            {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}},
            Volume(disk="awsElasticBlockStore d", read_only=True, exclusive=True),
        ),
        ({"rbd": {"image": "i", "pool": "p"}}, Volume(disk="rbd p/i")),
        ({"iscsi": {"iqn": "q", "lun": 0}}, Volume(disk="iscsi q")),
        (
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "storageClassName": "local",
                            "accessModes": ["ReadWriteOncePod"],
                            "resources": {"requests": {"storage": "2Gi"}},
                        }
                    }
                }
            },
            Volume(own=Claim("", "local", 2 << 30, frozenset({Access.ONE_MEMBER}))),
        ),
    ],
)
def test_volumes_that_decide_about_nodes(source: dict[str, Any], volume: Volume) -> None:
    assert read(**source) == (volume,)


@pytest.mark.parametrize("source", [{"emptyDir": {}}, {"secret": {"secretName": "s"}}])
def test_volumes_that_do_not(source: dict[str, Any]) -> None:
    assert read(**source) == ()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("persistentVolumeClaim: {}", "no claimName"),
        ("persistentVolumeClaim: 3", "persistentVolumeClaim that is no mapping"),
        ("gcePersistentDisk: {pdName: 3}", "pdName 3"),
        (
            "ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: x}}}}}",
            "a storage request of 'x'",
        ),
        ("ephemeral: {volumeClaimTemplate: {spec: {accessModes: [RWO]}}}", "access modes ['RWO']"),
    ],
)
def test_what_is_refused(source: str, found: str) -> None:
    text = f"""
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {{name: j}}
spec:
  framework: indexed
  command: [a]
  roles: {{worker: {{kubernetes: {{volumes: [{{name: v, {source}}}]}}}}}}
"""
    with pytest.raises(BadInput) as caught:
        expand(parse_job(text, "job"))
    [problem] = caught.value.problems
    assert problem.path == "spec.roles.worker.kubernetes.volumes[0]"
    assert problem.found.startswith(found)


def test_members_mount_what_the_job_and_their_role_name() -> None:
    text = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {name: j}
spec:
  framework: indexed
  command: [a]
  kubernetes: {volumes: [{name: a, persistentVolumeClaim: {claimName: all}}]}
  roles:
    worker: {kubernetes: {volumes: [{name: b, persistentVolumeClaim: {claimName: own}}]}}
    other: {}
"""
    worker, other = expand(parse_job(text, "job")).members
    assert worker.volumes == (Volume("all"), Volume("own"))
    assert other.volumes == (Volume("all"),)
