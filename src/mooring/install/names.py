"""Names and ports that the manifests and the operator must agree on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

GROUP: Final = "mooring.dev"
VERSION: Final = "v1"

NAMESPACE: Final = "mooring-system"
OPERATOR: Final = "mooring-operator"
LEASE: Final = "mooring-operator"
#: Holds what the tokens of jobs are made with.
KEY_SECRET: Final = "mooring-operator-key"
METRICS_SERVICE: Final = "mooring-metrics"
WEBHOOK_SERVICE: Final = "mooring-webhook"
WEBHOOK_CONFIGURATION: Final = "mooring"
WEBHOOK_PATH: Final = "/validate"
METRICS_PORT: Final = 9090
WEBHOOK_PORT: Final = 9443
#: For the operator, and for the pods of jobs.
OPERATOR_PRIORITY: Final = "mooring-operator"
JOB_PRIORITY: Final = "mooring-job"
#: Where the image holds the packed launcher; init containers copy it from there.
LAUNCHER_IN_IMAGE: Final = "/opt/mooring/launcher.pyz"

LABELS: Final[Mapping[str, str]] = {
    "app.kubernetes.io/name": "mooring",
    "app.kubernetes.io/part-of": "mooring",
}
SELECTOR: Final[Mapping[str, str]] = {
    "app.kubernetes.io/name": "mooring",
    "app.kubernetes.io/component": "operator",
}

Manifest = dict[str, Any]


def named(api_version: str, kind: str, name: str, namespace: str | None = None) -> Manifest:
    """The head of a manifest."""
    place = {} if namespace is None else {"namespace": namespace}
    metadata = {"name": name, **place, "labels": dict(LABELS)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def webhook_host(namespace: str) -> str:
    """The name under which the API server calls the webhook: what its certificate is for."""
    return f"{WEBHOOK_SERVICE}.{namespace}.svc"
