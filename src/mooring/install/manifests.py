"""All that an installation consists of, in an order in which it can be applied."""

from __future__ import annotations

import json
from collections.abc import Iterable

from mooring.install.crd import pool_crd, training_job_crd
from mooring.install.deployment import deployment, namespace, priority_classes, services
from mooring.install.names import Manifest
from mooring.install.rbac import operator_roles, service_account, user_roles
from mooring.install.settings import InstallSettings
from mooring.install.webhook import webhook_configuration
from mooring.spec.write import dump_yaml


def custom_resources(settings: InstallSettings) -> list[Manifest]:
    return [training_job_crd(cel=settings.cel), pool_crd()]


def manifests(settings: InstallSettings) -> list[Manifest]:
    """First what others refer to, last what runs."""
    return [*custom_resources(settings), namespace(settings), *objects(settings)]


def objects(settings: InstallSettings) -> list[Manifest]:
    """All but the definitions and the namespace."""
    result = [
        *priority_classes(),
        service_account(settings),
        *operator_roles(settings),
        *user_roles(),
        *services(settings),
        deployment(settings),
    ]
    if settings.webhook:
        result.append(webhook_configuration(settings))
    return result


def to_yaml(documents: Iterable[Manifest]) -> str:
    """One stream of documents, for `kubectl apply -f -`."""
    return "".join("---\n" + dump_yaml(document) for document in documents)


def to_json(documents: Iterable[Manifest]) -> str:
    """One List, for programs."""
    items = list(documents)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1) + "\n"
