"""What a stored job means, by the checks that a job file goes through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring import frameworks
from mooring.spec import TrainingJob
from mooring.spec.load import check_job


def check_object(obj: Mapping[str, Any]) -> TrainingJob:
    """Raises BadInput with every problem."""
    metadata = {key: obj["metadata"][key] for key in ("name", "labels") if key in obj["metadata"]}
    document = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "metadata": metadata,
        "spec": obj.get("spec"),
    }
    job = check_job(document, metadata["name"])
    frameworks.expand(job, metadata["name"])
    return job
