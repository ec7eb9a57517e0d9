"""The registration of the admission webhook that the operator serves.

It fails open: while no replica answers, jobs can still be created, and the operator checks each of
them again before anything is done about it. The certificate's authority is not here: the operator
makes it and enters it, and applying the manifest again leaves it alone.
"""

from __future__ import annotations

from typing import Any

from mooring.install.names import (
    GROUP,
    VERSION,
    WEBHOOK_CONFIGURATION,
    WEBHOOK_PATH,
    WEBHOOK_SERVICE,
    Manifest,
    named,
)
from mooring.install.settings import InstallSettings


def webhook_configuration(settings: InstallSettings) -> Manifest:
    manifest = named(
        "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", WEBHOOK_CONFIGURATION
    )
    manifest["webhooks"] = [
        {
            "name": f"jobs-and-pools.{GROUP}",
            "clientConfig": {
                "service": {
                    "name": WEBHOOK_SERVICE,
                    "namespace": settings.namespace,
                    "path": WEBHOOK_PATH,
                    "port": 443,
                }
            },
            "rules": [_writing("trainingjobs", "Namespaced"), _writing("pools", "Cluster")],
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
        }
    ]
    return manifest


def _writing(resource: str, scope: str) -> dict[str, Any]:
    return {
        "apiGroups": [GROUP],
        "apiVersions": [VERSION],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource],
        "scope": scope,
    }
