"""The CustomResourceDefinitions, from the models that check a job file.

Compatibility: within v1 a field is never removed, renamed or given another meaning, and whatever
was accepted stays accepted; new fields are optional.
"""

from __future__ import annotations

from typing import Any

from mooring.install.names import GROUP, LABELS, VERSION, Manifest
from mooring.install.status_schema import JOB_STATUS
from mooring.install.structural import Schema, structural_schema
from mooring.spec.fields import LONGEST_JOB_NAME, LONGEST_LABEL
from mooring.spec.job import JobSpec, Metadata
from mooring.spec.pools import ClusterPool
from mooring.spec.role import MOST_MEMBERS

#: JSONPath, as `kubectl get` understands it. Priority 1: with `-o wide` only.
_JOB_COLUMNS: list[dict[str, Any]] = [
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Ready", "type": "string", "jsonPath": ".status.ready"},
    {"name": "Pool", "type": "string", "jsonPath": ".status.pool"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Examples/s", "type": "number", "jsonPath": ".status.examplesPerSecond"},
    {"name": "Reason", "type": "string", "jsonPath": ".status.reason", "priority": 1},
]
_POOL_COLUMNS: list[dict[str, Any]] = [
    {"name": "Weight", "type": "number", "jsonPath": ".spec.weight"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def training_job_crd(*, cel: bool = False) -> Manifest:
    """`cel`: with validation rules for servers that know them."""
    spec = structural_schema(JobSpec)
    spec["properties"]["roles"]["maxProperties"] = MOST_MEMBERS
    if cel:
        _add_rules(spec)
    schema = {
        "type": "object",
        "description": "A distributed training job.",
        "required": ["spec"],
        "properties": {
            "metadata": _named(structural_schema(Metadata)["properties"]["name"]),
            "spec": spec,
            "status": JOB_STATUS,
        },
    }
    return _crd("TrainingJob", "trainingjobs", "tj", "Namespaced", schema, _JOB_COLUMNS)


def pool_crd() -> Manifest:
    """A pool's name is that of the object; the rest is what a cluster file says of a pool."""
    spec = structural_schema(ClusterPool)
    name = spec["properties"].pop("name")
    spec["required"] = [field for field in spec["required"] if field != "name"]
    if not spec["required"]:
        del spec["required"]
    schema = {
        "type": "object",
        "description": "A team's share of the cluster.",
        "required": ["spec"],
        "properties": {"metadata": _named(name), "spec": spec},
    }
    return _crd("Pool", "pools", "mpool", "Cluster", schema, _POOL_COLUMNS)


def _named(name: Schema) -> Schema:
    """The only part of the metadata that a definition may restrict."""
    limits = {key: name[key] for key in ("type", "pattern", "maxLength")}
    assert limits["maxLength"] in (LONGEST_JOB_NAME, LONGEST_LABEL)
    return {"type": "object", "properties": {"name": limits}}


def _add_rules(spec: Schema) -> None:
    """Cheap ones alone: a server refuses a definition whose rules might take too long, and for the
    names of a map's keys it reckons with the longest name that fits into a request.
    """
    fields = spec["properties"]
    fields["framework"]["x-kubernetes-validations"] = [
        {"rule": "self == oldSelf", "message": "the framework of a job cannot be changed"}
    ]
    fields["roles"]["x-kubernetes-validations"] = [
        {
            "rule": "self.all(name, name in oldSelf) && oldSelf.all(name, name in self)",
            "message": "the roles of a job cannot be added, removed or renamed",
        }
    ]
    spec["x-kubernetes-validations"] = [
        {
            "rule": "has(self.strategy) == has(oldSelf.strategy) && "
            "(!has(self.strategy) || self.strategy == oldSelf.strategy)",
            "message": "the strategy of a job cannot be changed",
        }
    ]
    fields["kubernetes"]["x-kubernetes-validations"] = [
        {
            "rule": "!has(self.queue) || self.scheduler in ['volcano', 'kueue']",
            "message": "a queue only with 'scheduler: volcano' or 'scheduler: kueue'",
        }
    ]
    fields["stepMetrics"]["x-kubernetes-validations"] = [
        {
            "rule": "has(self.pattern) == (self.source == 'regex')",
            "message": "a pattern is needed with 'source: regex', and only there",
        }
    ]


def _crd(
    kind: str, plural: str, short: str, scope: str, schema: Schema, columns: list[dict[str, Any]]
) -> Manifest:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": dict(LABELS)},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["mooring"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **(
                        {"subresources": {"status": {}}} if "status" in schema["properties"] else {}
                    ),
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }
