"""What a user may write: the job file and the cluster file, their defaults and their checks."""

from __future__ import annotations

from mooring.spec.job import (
    API_VERSION,
    JobSpec,
    Metadata,
    TrainingJob,
)
from mooring.spec.load import load_cluster, load_job, parse_cluster, parse_job
from mooring.spec.placement import PlacementSpec, RuleSpec, TolerationSpec
from mooring.spec.policies import (
    Backoff,
    FailurePolicy,
    StepMetrics,
    StepSource,
    SuccessMode,
    SuccessPolicy,
)
from mooring.spec.role import ResourceSpec, Role
from mooring.spec.strategy import Strategy
from mooring.spec.variables import VariablesSpec

__all__ = [
    "API_VERSION",
    "Backoff",
    "FailurePolicy",
    "JobSpec",
    "Metadata",
    "PlacementSpec",
    "ResourceSpec",
    "Role",
    "RuleSpec",
    "StepMetrics",
    "StepSource",
    "Strategy",
    "SuccessMode",
    "SuccessPolicy",
    "TolerationSpec",
    "TrainingJob",
    "VariablesSpec",
    "load_cluster",
    "load_job",
    "parse_cluster",
    "parse_job",
]
