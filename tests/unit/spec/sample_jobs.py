"""Job files that the tests of this folder start from."""

from __future__ import annotations

from typing import Any

SHORTEST = """\
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {name: demo}
spec:
  framework: indexed
  command: [python, train.py]
  roles:
    worker: {replicas: 2}
"""

ZONES = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
LARGE = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]}
NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ZONES]},
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": LARGE}],
}


def full() -> dict[str, Any]:
    """A valid job that uses every field."""
    return {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "wide-deep", "labels": {"team": "ranking"}},
        "spec": {
            "framework": "tensorflow",
            "strategy": "parameter-server",
            "image": "registry.example/train:1",
            "command": ["python", "train.py", "--steps", "100"],
            "env": {"LEVEL": "2"},
            "workingDir": "src",
            "files": ["train.py", "model"],
            "roles": {
                "worker": {
                    "replicas": 2,
                    "processes": 2,
                    "command": ["python", "worker.py"],
                    "env": {"BATCH": "512"},
                    "resources": {"cpu": 2, "memory": "4Gi", "gpu": 1},
                    "ports": {"main": 0, "metrics": 9100},
                    "nodeSelector": {"disk": "ssd"},
                    "nodeAffinity": NODE_AFFINITY,
                    "nodeName": "gpu-0",
                    "gpuKind": "a100",
                    "gpuMemory": "40Gi",
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "restart": "member",
                },
                "ps": {"resources": {"cpu": "1000m"}},
            },
            "placement": {
                "preset": "colocate",
                "rules": [
                    {
                        "relation": "apart",
                        "roles": ["ps"],
                        "with": ["worker"],
                        "required": True,
                        "weight": 10,
                    }
                ],
                "nodeSelector": {"zone": "a"},
                "nodeAffinity": NODE_AFFINITY,
                "nodeName": "gpu-1",
                "tolerations": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            },
            "pinning": "exclusive",
            "threads": 4,
            "gang": False,
            "minAvailable": 2,
            "traffic": {"pattern": "parameter-server", "bytesPerStep": "4Mi"},
            "priority": "nightly",
            "preemptible": False,
            "expectedDuration": "2h",
            "pool": "ads",
            "successPolicy": {"roles": ["worker"], "mode": "any"},
            "failurePolicy": {
                "restart": "gang",
                "maxRestarts": 2,
                "backoff": {"initial": "250ms", "factor": 1.5, "max": "2m"},
            },
            "timeLimit": "1h30m",
            "startTimeout": 60,
            "gracePeriod": "0s",
            "stepMetrics": {
                "source": "regex",
                "pattern": r"step (?P<step>\d+) loss (?P<loss>\S+)",
                "examplesPerStep": 512,
                "totalSteps": 1000,
            },
        },
    }
