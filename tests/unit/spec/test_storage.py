"""Storage in a cluster file."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mooring.model.affinity import Operator, Requirement, Term
from mooring.model.volumes import (
    Access,
    Binding,
    Claim,
    PersistentVolume,
    Storage,
    StorageClass,
)
from mooring.spec.load import parse_cluster
from mooring.spec.storage import StorageSpec

_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def test_what_a_file_says_of_storage() -> None:
    spec = StorageSpec.model_validate(
        {
            "classes": [
                {
                    "name": "fast",
                    "provisioner": "x.example",
                    "volumeBindingMode": "WaitForFirstConsumer",
                    "allowedTopologies": [_TERM],
                },
                {"name": "local", "provisioner": "kubernetes.io/no-provisioner"},
            ],
            "volumes": [
                {
                    "name": "pv",
                    "capacity": "1Gi",
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "fast",
                    "driver": "x.example",
                    "labels": {"zone": "a"},
                    "nodeAffinity": {"nodeSelectorTerms": [_TERM]},
                    "claimRef": "data",
                }
            ],
            "claims": [{"name": "data", "storage": "1Gi", "volumeName": "pv"}],
        }
    )
    terms = (Term((Requirement("zone", Operator.IN, ("a",)),)),)
    shared = frozenset({Access.MANY_NODES})
    assert spec.to_model() == Storage(
        (
            PersistentVolume(
                "pv", "fast", 1 << 30, shared, "x.example", (("zone", "a"),), terms, "data"
            ),
        ),
        (Claim("data", "", 1 << 30, volume="pv"),),
        (StorageClass("fast", "x.example", Binding.WAIT, terms), StorageClass("local")),
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"claims": [{"name": "a"}, {"name": "a"}]}, "claims.1.name: found the name 'a' a second"),
        ({"claims": [{"name": "a", "volumeName": "b"}]}, "unknown volume 'b'"),
        (
            {
                "volumes": [{"name": "v"}],
                "claims": [{"name": n, "volumeName": "v"} for n in ("a", "b")],
            },
            "another volume: claim 'a' has this one",
        ),
        ({"volumes": [{"name": "v", "accessModes": []}]}, "accessModes"),
        ({"volumes": [{"name": "v", "accessModes": ["RWO"]}]}, "accessModes"),
    ],
)
def test_what_is_refused(spec: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        StorageSpec.model_validate(spec)


def test_limits_of_a_node() -> None:
    text = """
apiVersion: mooring.dev/v1
kind: Cluster
nodes: [{name: n, cpus: 1, memory: 1Gi, volumeLimits: {x.example: 0}}]
"""
    [node] = parse_cluster(text, "cluster")
    assert node.volume_limits == (("x.example", 0),)
