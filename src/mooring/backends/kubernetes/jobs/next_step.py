"""What is next for a job, from all that is known of it: what its author changed, who places it,
whether it stands still, what its pods show. Pure; `look` says what follows from record and pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.backends.kubernetes.jobs.admission import anywhere
from mooring.backends.kubernetes.jobs.look import Seen, Step, admit, look, release
from mooring.backends.kubernetes.jobs.pool_access import Pools
from mooring.backends.kubernetes.jobs.record import Record, Stage
from mooring.backends.kubernetes.jobs.room import changed_roles
from mooring.backends.kubernetes.jobs.training_job import JobView, Meaning, wishes_of
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.lifecycle import Stalled
from mooring.model.errors import Problem
from mooring.model.member import MemberId


def refusals(view: JobView, meaning: Meaning, record: Record, pools: Pools) -> Sequence[Problem]:
    """Why a job that holds no place may not have one of its pool."""
    if not meaning.by_mooring or record.stage not in (Stage.QUEUED, Stage.SUSPENDED):
        return ()
    return pools.refusals(meaning.job, meaning.priority, view.namespace)


def next_step(
    view: JobView,
    meaning: Meaning,
    record: Record,
    pods: Mapping[MemberId, PodView],
    stalled: Stalled | None,
    now_s: float,
) -> Step:
    """A job whose roles have changed gives its place back; one that another scheduler places is
    admitted at once, anywhere. Otherwise what `look` says."""
    changed = changed_roles(record, meaning)
    if changed:
        record = release(record, "Rescaled", changed)
    wishes = wishes_of(view, meaning)
    held_back = wishes.suspend or wishes.stop or now_s < record.not_before_s
    if record.stage is Stage.QUEUED and not meaning.by_mooring and not held_back:
        record = admit(record, anywhere(meaning.gang), meaning.policy, now_s)
    return look(record, wishes, Seen(view.uid, view.created_at_s, pods, stalled), now_s)
