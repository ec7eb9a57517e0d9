"""One job onto nodes. Looks and decides, starts nothing.

`app` plans here before it runs a job; `moor plan` and `moor explain` do nothing else with a job
that is alone. Apart from `planning`, because importing the queue takes longer than placing a job.
"""

from __future__ import annotations

from dataclasses import replace

from mooring import frameworks
from mooring.brain.only_node import plan_on_only_node
from mooring.brain.profile import DEFAULT, Profile
from mooring.model.cluster import Snapshot
from mooring.model.member import Gang
from mooring.model.plan import Plan, Refusal
from mooring.spec import TrainingJob


def plan_job(
    job: TrainingJob,
    snapshot: Snapshot,
    source: str = "job",
    profile: Profile = DEFAULT,
    *,
    scores: bool = True,
) -> tuple[Gang, Plan | Refusal]:
    """Where each member would go. An elastic gang comes back as large as it fits.

    `scores`: the verdicts must have them, also where there was nothing to choose.
    """
    whole = frameworks.expand(job, source)
    if not scores and profile is DEFAULT and (plan := plan_on_only_node(whole, snapshot)):
        return whole, plan
    from mooring.brain import place

    if job.spec.min_available is None:
        return whole, place(whole, snapshot, profile)
    from mooring.brain import queue

    asked = queue.QueuedGang(whole, min_available=job.spec.min_available)
    gang, answer = queue.as_many_as_fit(asked, lambda gang: place(gang, snapshot, profile))
    if isinstance(answer, Plan) and len(gang.members) < asked.most:
        note = f"starts with {len(gang.members)} of {asked.most} members (minAvailable)"
        answer = replace(answer, notes=(*answer.notes, note))
    return gang, answer
