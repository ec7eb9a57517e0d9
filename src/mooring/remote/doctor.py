"""What a cluster tells of a job, as facts for the doctor: places, pinning with its reason, waiting.

Samples stay in the pods, so checks of rates have no answer here and say so.
"""

from __future__ import annotations

from mooring.doctor import Diagnosis, diagnose_cluster, diagnose_run
from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.kubeapi.client import Client
from mooring.model.member import MemberId, Pinning
from mooring.model.status import Phase
from mooring.operator.jobs import JobView, Meaning, meaning_of
from mooring.operator.record import Stage
from mooring.remote.gangs import read_gangs
from mooring.remote.report import JobReport, MemberReport, report_of

#: How `remote.report` begins the reason why CPUs are not a member's own.
_SHARED = "shared: "
#: In Mooring's queue, or not yet looked at; a job that another scheduler takes care of is pending.
_WAITING = frozenset({Stage.QUEUED.value, Phase.PENDING.value})


async def diagnose_job(client: Client, view: JobView, now_s: float) -> Diagnosis:
    """Raises BadInput if the job itself is none. Of a job that waits, the cluster is looked at too:
    somebody may hold for nothing what it needs."""
    meaning = meaning_of(view.object)
    facts = facts_of(await report_of(client, view), meaning)
    found = diagnose_run(facts)
    if not facts.waits_for:
        return found
    return found.with_those_of(diagnose_cluster(await read_gangs(client, None, now_s)))


def facts_of(report: JobReport, meaning: Meaning) -> RunFacts:
    wanted = {member.id: member for member in meaning.gang.members}
    members = []
    for told in report.members:
        role, _, index = told.member.rpartition("-")
        member = wanted.get(MemberId(role, int(index)))
        asked = member is not None and member.pinning is Pinning.EXCLUSIVE
        members.append(_member(told, role, asked=asked))
    progress = report.progress
    return RunFacts(
        run=f"{report.namespace}/{report.name}",
        job=meaning.job,
        server_roles=meaning.gang.server_roles,
        members=tuple(members),
        waits_for=progress.message if progress.phase in _WAITING else "",
        examples_per_s=progress.examples_per_s,
        source="the job's status and its launchers",
    )


def _member(told: MemberReport, role: str, *, asked: bool) -> MemberFacts:
    loose = asked and not told.exclusive and told.pinning.startswith(_SHARED)
    return MemberFacts(
        name=told.member,
        role=role,
        node=told.node,
        # Whether a set is its own was judged where it is known: here it only must not be doubted.
        exclusive=told.exclusive or not loose,
        threads_told=told.threads,
        pinned=not loose,
        pinning_note=told.pinning.removeprefix(_SHARED) if loose else "",
    )
