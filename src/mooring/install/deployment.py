"""The operator's namespace, Deployment, Services and PriorityClasses.

The pods conform to the `restricted` Pod Security Standard, as those of jobs do.
"""

from __future__ import annotations

from typing import Any

from mooring.install.names import (
    JOB_PRIORITY,
    METRICS_PORT,
    METRICS_SERVICE,
    OPERATOR,
    OPERATOR_PRIORITY,
    SELECTOR,
    WEBHOOK_PORT,
    WEBHOOK_SERVICE,
    Manifest,
    named,
)
from mooring.install.settings import InstallSettings

#: Nobody's user id in common images ("nonroot").
_USER = 65532


def namespace(settings: InstallSettings) -> Manifest:
    manifest = named("v1", "Namespace", settings.namespace)
    manifest["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
    return manifest


def priority_classes() -> list[Manifest]:
    """Pods of jobs never push others out by themselves: the operator decides about whole gangs."""
    operator = named("scheduling.k8s.io/v1", "PriorityClass", OPERATOR_PRIORITY)
    operator |= {
        "value": 1_000_000,
        "description": "The operator of Mooring: before ordinary pods, after the system's.",
    }
    job = named("scheduling.k8s.io/v1", "PriorityClass", JOB_PRIORITY)
    job |= {
        "value": 0,
        "preemptionPolicy": "Never",
        "description": "Members of training jobs; who gives way is decided for whole gangs.",
    }
    return [operator, job]


def services(settings: InstallSettings) -> list[Manifest]:
    manifests = [_service(settings, METRICS_SERVICE, "metrics", METRICS_PORT, METRICS_PORT)]
    if settings.webhook:
        manifests.append(_service(settings, WEBHOOK_SERVICE, "webhook", 443, WEBHOOK_PORT))
    return manifests


def _service(
    settings: InstallSettings, name: str, port_name: str, port: int, target: int
) -> Manifest:
    manifest = named("v1", "Service", name, settings.namespace)
    manifest["spec"] = {
        "type": "ClusterIP",
        "selector": dict(SELECTOR),
        "ports": [{"name": port_name, "port": port, "targetPort": target, "protocol": "TCP"}],
    }
    return manifest


def deployment(settings: InstallSettings) -> Manifest:
    manifest = named("apps/v1", "Deployment", OPERATOR, settings.namespace)
    manifest["metadata"]["labels"] |= SELECTOR
    manifest["spec"] = {
        "replicas": settings.replicas,
        "selector": {"matchLabels": dict(SELECTOR)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "template": {
            "metadata": {"labels": dict(manifest["metadata"]["labels"])},
            "spec": _pod(settings),
        },
    }
    return manifest


def _pod(settings: InstallSettings) -> dict[str, Any]:
    return {
        "serviceAccountName": OPERATOR,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "priorityClassName": OPERATOR_PRIORITY,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(SELECTOR)},
            }
        ],
        "containers": [_container(settings)],
    }


def _container(settings: InstallSettings) -> dict[str, Any]:
    ports = [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}]
    if settings.webhook:
        ports.append({"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"})
    return {
        "name": "operator",
        "image": settings.image,
        "command": ["moor", "operator"],
        "args": _arguments(settings),
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "ports": ports,
        "livenessProbe": _probe("/healthz", period_s=20, failures=3),
        "readinessProbe": _probe("/readyz", period_s=5, failures=2),
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "2Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _arguments(settings: InstallSettings) -> list[str]:
    watched = [f"--namespace={namespace}" for namespace in settings.watch]
    return [
        "--leader-elect",
        f"--operator-namespace={settings.namespace}",
        f"--image={settings.image}",
        f"--metrics-port={METRICS_PORT}",
        f"--webhook-port={WEBHOOK_PORT if settings.webhook else 0}",
        "--log-format=json",
        *(["--kubelet-config"] if settings.kubelet_config else []),
        *([] if settings.network_policy else ["--no-network-policy"]),
        *watched,
    ]


def _probe(path: str, period_s: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": METRICS_PORT, "scheme": "HTTP"},
        "periodSeconds": period_s,
        "failureThreshold": failures,
        "timeoutSeconds": 5,
    }
