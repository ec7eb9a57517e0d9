"""What is next for a job, from all that is known of it: what its author changed, who places it,
whether it stands still, what its pods show. Pure; `look` says what follows from record and pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.backends.kubernetes.jobs.admission import anywhere
from mooring.backends.kubernetes.jobs.look import NextStep, ObservedPods, admit, look, release
from mooring.backends.kubernetes.jobs.pool_access import Pools
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.room import changed_roles
from mooring.backends.kubernetes.jobs.training_job import JobView, ParsedJob, run_policy_of
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.lifecycle import Stalled
from mooring.model.errors import Problem
from mooring.model.member import MemberId


def refusals(
    view: JobView, parsed: ParsedJob, record: TrainingJobRecord, pools: Pools
) -> Sequence[Problem]:
    """Why a job that holds no place may not have one of its pool."""
    if not parsed.by_mooring or record.stage not in (Stage.QUEUED, Stage.SUSPENDED):
        return ()
    return pools.refusals(parsed.job, parsed.priority, view.namespace)


def next_step(
    view: JobView,
    parsed: ParsedJob,
    record: TrainingJobRecord,
    pods: Mapping[MemberId, PodView],
    stalled: Stalled | None,
    now_s: float,
) -> NextStep:
    """A job whose roles have changed gives its place back; one that another scheduler places is
    admitted at once, anywhere. Otherwise what `look` says."""
    changed = changed_roles(record, parsed)
    if changed:
        record = release(record, "Rescaled", changed)
    run_policy = run_policy_of(view, parsed)
    held_back = run_policy.suspend or run_policy.stop or now_s < record.not_before_s
    if record.stage is Stage.QUEUED and not parsed.by_mooring and not held_back:
        record = admit(record, anywhere(parsed.gang), parsed.policy, now_s)
    return look(record, run_policy, ObservedPods(view.uid, view.created_at_s, pods, stalled), now_s)
