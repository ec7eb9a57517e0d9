"""What a cluster tells of a job, as facts for the doctor: its status, and its launchers' journals.

Journals stay in the pods; the first member's launcher keeps the last minutes of all of them and is
asked through the API server. Of a job whose first member does not run there is only the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from mooring.account import Account
from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Json, items, mapping
from mooring.backends.kubernetes.client.report import (
    JobReport,
    MemberReport,
    ask_leader,
    gang_pods,
    leader_of,
    report_of,
)
from mooring.backends.kubernetes.jobs.record import Stage
from mooring.backends.kubernetes.jobs.training_job import (
    JobView,
    ParsedJob,
    parse_training_job,
    record_of,
)
from mooring.doctor import Diagnosis, diagnose_cluster, diagnose_run
from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.doctor.member_journal import MemberJournal, sort_records
from mooring.doctor.read_account import read_account
from mooring.doctor.read_gangs import read_gangs
from mooring.doctor.read_member import member_facts, window_of
from mooring.doctor.read_program import read_traits
from mooring.doctor.read_stall import silence
from mooring.model.member import Member, MemberId, Pinning
from mooring.model.plan import Slot
from mooring.model.status import Phase
from mooring.record.plan_file import Holding
from mooring.variables.from_run import parts_of
from mooring.wire import NewerVersion, Record, UnreadableRecord, newer_journal, read_record

#: In Mooring's queue, or not yet looked at; a job that another scheduler takes care of is pending.
_WAITING = frozenset({Stage.QUEUED.value, Phase.PENDING.value})


async def diagnose_job(client: Client, view: JobView, now_s: float) -> Diagnosis:
    """Raises BadInput if the job itself is none. Of a job that waits, the cluster is looked at too:
    somebody may hold for nothing what it needs."""
    parsed = parse_training_job(view.object)
    slots = record_of(view, parsed).slots
    histories = await _histories(client, view, parsed, slots)
    facts = facts_of(await report_of(client, view), parsed, slots, histories)
    found = diagnose_run(facts)
    if not facts.waits_for:
        return found
    return found.with_those_of(diagnose_cluster(await read_gangs(client, None, now_s)))


async def _histories(
    client: Client, view: JobView, parsed: ParsedJob, slots: Mapping[MemberId, Slot]
) -> dict[str, MemberJournal]:
    _, pods = await gang_pods(client, view)
    leader = leader_of([member.id for member in parsed.gang.members], slots)
    answer, _ = await ask_leader(client, view, pods.get(leader), "/history")
    return parse_history(answer)


def parse_history(answer: Json) -> dict[str, MemberJournal]:
    """Member name -> the records of its journal; what is no record is left out.

    Raises BadInput if a newer launcher than this Mooring's wrote them.
    """
    members = mapping(answer, "members")
    return {name: sort_records(_records(items(members, name), name)) for name in members}


def _records(documents: Iterable[object], member: str) -> Iterator[Record]:
    for document in documents:
        try:
            yield read_record(document)
        except NewerVersion as error:
            raise newer_journal(f"journal of {member}", error) from None
        except UnreadableRecord:
            continue


def facts_of(
    report: JobReport,
    parsed: ParsedJob,
    slots: Mapping[MemberId, Slot],
    histories: Mapping[str, MemberJournal],
) -> RunFacts:
    wanted = {member.id: member for member in parsed.gang.members}
    window = window_of(histories.values(), None)
    members = []
    for told in report.members:
        role, _, index = told.member.rpartition("-")
        member = wanted.get(MemberId(role, int(index)))
        measured = MemberFacts(name=told.member, role=role, node=told.node)
        if member is not None and member.id in slots:
            holding = Holding(member.id, member.resources, slots[member.id])
            journal = histories.get(told.member, MemberJournal())
            measured = member_facts(member.id, holding, parsed.gang, journal, window)
        members.append(_with_place(measured, told, member))
    progress = report.progress
    rates = [member.steps_per_s for member in members if member.steps_per_s is not None]
    steps_per_s = max(rates, default=None)
    return RunFacts(
        run=f"{report.namespace}/{report.name}",
        job=parsed.job,
        duties=parsed.gang.duty_by_role,
        members=tuple(members),
        waits_for=progress.message if progress.phase in _WAITING else "",
        examples_per_s=progress.examples_per_s,
        steps_per_s=steps_per_s,
        variables=tuple(
            parts_of(variable for each in histories.values() for variable in each.variables)
        ),
        program=read_traits(program for each in histories.values() for program in each.programs),
        source="the job's status and its launchers",
        account=read_account(members, parsed.gang.duty_by_role, steps_per_s, one_machine=False)
        if histories
        else Account(),
        stall=silence({name: each.records for name, each in histories.items()})
        if progress.phase == Phase.RUNNING.value
        else None,
    )


def _with_place(measured: MemberFacts, told: MemberReport, member: Member | None) -> MemberFacts:
    """CPUs as the kubelet gave them: those of the plan are a wish there."""
    asked = member is not None and member.pinning is Pinning.EXCLUSIVE
    loose = asked and bool(told.why_shared)
    return replace(
        measured,
        node=told.node,
        held_cpus=measured.allowed_cpus,
        # Whether a set is its own was judged where it is known: here it only must not be doubted.
        exclusive=asked and not loose,
        threads_told=told.threads if told.threads is not None else measured.threads_told,
        pinned=not loose,
        pinning_note=told.why_shared if loose else "",
    )
