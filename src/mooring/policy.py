"""The lifecycle policy that a job asks for: one translation, whichever runtime carries it out."""

from __future__ import annotations

from mooring import frameworks
from mooring.lifecycle import Backoff, Policy
from mooring.model.member import Gang
from mooring.spec import TrainingJob


def policy_of(job: TrainingJob, gang: Gang) -> Policy:
    spec = job.spec
    success = frameworks.success_policy(job)
    backoff = spec.failure_policy.backoff
    return Policy(
        success_roles=tuple(success.roles),
        success_mode=success.mode.value,
        restart={member.id: member.restart for member in gang.members},
        max_restarts=spec.failure_policy.max_restarts,
        backoff=Backoff(backoff.initial_s, backoff.factor, backoff.max_s),
        grace_s=spec.grace_period_s,
        time_limit_s=spec.time_limit_s,
        start_timeout_s=spec.start_timeout_s,
        all_or_nothing=gang.all_or_nothing,
        on_stall=spec.failure_policy.on_stall.value,
    )
