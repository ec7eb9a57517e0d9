"""What of a job may still be changed once it exists.

A job's framework, strategy and role names are what it is. What shapes its members may be changed
while it holds no place, never under running members: a restarted one would come back different from
its peers. The rest (counts, priorities, limits, clean-up) may change at any time.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from mooring.model.errors import Problem
from mooring.spec.base import one_of
from mooring.spec.job import JobSpec, TrainingJob
from mooring.spec.kubernetes import KubernetesSpec
from mooring.spec.role import Role

#: What `_shapes` compares one by one, or what a running gang can live with.
_FREE: dict[type[BaseModel], frozenset[str]] = {
    JobSpec: frozenset(
        {
            "framework",
            "strategy",
            "roles",
            "kubernetes",
            "priority",
            "preemptible",
            "min_available",
            "expected_duration_s",
            "success_policy",
            "failure_policy",
            "time_limit_s",
            "start_timeout_s",
        }
    ),
    Role: frozenset({"replicas", "restart"}),
    KubernetesSpec: frozenset(
        {"suspend", "clean_pods", "ttl_after_finished_s", "bind_timeout_s", "namespace"}
    ),
}


def forbidden_changes(old: TrainingJob, new: TrainingJob, *, held: bool) -> list[Problem]:
    """What of `new` cannot be taken over; `held`: the job has a place, or had its turn."""
    problems = list(_identity(old.spec, new.spec))
    if not problems and held:
        problems += _shapes(old.spec, new.spec)
    return problems


def _identity(old: JobSpec, new: JobSpec) -> Iterator[Problem]:
    for field in ("framework", "strategy"):
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            yield Problem(
                f"spec.{field}",
                f"'{after}'" if after else "nothing",
                f"{before!s}, as the job was made" if before else "nothing, as the job was made",
            )
    for name in new.roles:
        if name not in old.roles:
            accepted = one_of(name, old.roles) + "; roles cannot be added"
            yield Problem(f"spec.roles.{name}", f"the new role '{name}'", accepted)
    for name in old.roles:
        if name not in new.roles:
            accepted = f"the role '{name}'; roles cannot be removed"
            yield Problem(f"spec.roles.{name}", "nothing", accepted)


def _shapes(old: JobSpec, new: JobSpec) -> Iterator[Problem]:
    yield from _differences(old, new, "spec")
    yield from _differences(old.kubernetes, new.kubernetes, "spec.kubernetes")
    for name, role in old.roles.items():
        yield from _differences(role, new.roles[name], f"spec.roles.{name}")


def _differences(old: BaseModel, new: BaseModel, at: str) -> Iterator[Problem]:
    model = type(old)
    for name, field in model.model_fields.items():
        if name not in _FREE[model] and getattr(old, name) != getattr(new, name):
            yield Problem(
                f"{at}.{field.alias or name}",
                "another value than the running members have",
                "the old value; to change it, set 'kubernetes.suspend: true' and wait for the "
                "phase Suspended",
            )
