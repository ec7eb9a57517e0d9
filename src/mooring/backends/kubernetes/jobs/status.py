"""A job's record as the status of its TrainingJob, and back.

The status is for people and for the next leader alike. Members are written only where they
differ from what the job's phase implies, so that a gang of thousands has a short status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from types import MappingProxyType

from mooring.backends.kubernetes.api.document import (
    Json,
    Object,
    find,
    items,
    mapping,
    number,
    text,
)
from mooring.backends.kubernetes.api.times import parse_time, write_seconds, write_time
from mooring.backends.kubernetes.jobs import bounds
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.objects.pods import parse_ids
from mooring.lifecycle import JobOutcome, JobState, MemberStatus
from mooring.model.cluster import format_cpus
from mooring.model.member import MemberId
from mooring.model.plan import Slot
from mooring.model.status import MemberState, Phase

_CONDITIONS = ("Queued", "Admitted", "Placed", "Running", "Restarting", "Succeeded", "Failed")
_IMPLIED = {
    Phase.STARTING: MemberState.STARTING,
    Phase.RUNNING: MemberState.RUNNING,
    Phase.RESTARTING: MemberState.STOPPING,
    Phase.STOPPING: MemberState.STOPPING,
}
#: The reason of a job that did not pass the checks.
REJECTED = "Rejected"
#: What may be written a little later: pods show it too.
_DERIVED = ("ready", "examplesPerSecond", "steps", "pinning", "conditions", "lastUpdate")


@dataclass(frozen=True)
class StatusFigures:
    """What a person wants to see and no decision depends on."""

    ready: int
    total: int
    pool: str
    generation: int
    bound: bool = False
    examples_per_s: float | None = None
    step: int | None = None
    pinning: Mapping[str, str] = field(default_factory=dict)


def phase_of(record: TrainingJobRecord) -> str:
    """The one word that `kubectl get` shows."""
    if record.stage in (Stage.QUEUED, Stage.RELEASING, Stage.SUSPENDED):
        return record.stage.value
    assert record.state is not None
    return record.state.phase.value


def encode(
    record: TrainingJobRecord, figures: StatusFigures, before: Object, now_s: float
) -> dict[str, Json]:
    """The status to write; `before` is the one that is there."""
    status: dict[str, Json] = {
        "phase": phase_of(record),
        "stage": record.stage.value,
        "reason": bounds.cut(record.reason, bounds.LONGEST_REASON),
        "message": bounds.cut(record.message, bounds.LONGEST_MESSAGE),
        "ready": f"{figures.ready}/{figures.total}",
        "pool": figures.pool,
        "epoch": record.state.epoch if record.state else record.epoch,
        "restarts": record.state.restarts if record.state else record.restarts,
        "observedGeneration": figures.generation,
        "queuedAt": write_time(record.queued_at_s),
    }
    for key, at_s in (
        ("admittedAt", record.admitted_at_s),
        ("startedAt", record.running_at_s),
        ("finishedAt", record.finished_at_s),
    ):
        if at_s is not None:
            status[key] = write_time(at_s)
    if record.slots:
        status["placement"] = _by_role(record.slots, lambda slot: slot.node)
    memory = _memory(record)
    if memory:
        status["record"] = memory
    if figures.examples_per_s is not None:
        status["examplesPerSecond"] = round(figures.examples_per_s, 1)
    if figures.step is not None:
        status["steps"] = figures.step
    if figures.pinning:
        status["pinning"] = dict(figures.pinning)
    status["conditions"] = _conditions(record, figures, before, now_s)
    # Some servers take an empty text for none at all, and refuse it.
    full = {key: value for key, value in status.items() if value != ""}
    return bounds.pack(full, len(record.state.members) if record.state else len(record.slots))


def rejected(status: Object) -> bool:
    return text(status, "reason") == REJECTED


def urgent(before: Object, after: Object) -> bool:
    """Must `after` be written before anything else is done?"""
    before, after = bounds.unpack(before), bounds.unpack(after)
    keys = (set(before) | set(after)) - set(_DERIVED) - {"record"}
    if any(before.get(key) != after.get(key) for key in keys):
        return True
    old, new = mapping(before, "record"), mapping(after, "record")
    if any(old.get(key) != new.get(key) for key in {*old, *new} - {"members"}):
        return True
    old, new = mapping(old, "members"), mapping(new, "members")
    changed = [name for name in {*old, *new} if old.get(name) != new.get(name)]
    return any(text(new, name, "state") != MemberState.SUCCEEDED.value for name in changed)


def only_told_anew(before: Object, after: Object) -> bool:
    """Does a waiting job merely wait for something else than before?"""
    if after.get("stage") != Stage.QUEUED.value:
        return False
    keys = (set(before) | set(after)) - set(_DERIVED) - {"message"}
    return all(before.get(key) == after.get(key) for key in keys)


def decode(status: Object, members: Iterable[MemberId], created_at_s: float) -> TrainingJobRecord:
    """The record that a status holds; a new job has none, nor has one that was put right."""
    if not text(status, "stage"):
        return TrainingJobRecord(queued_at_s=created_at_s)
    if rejected(status):
        return TrainingJobRecord(epoch=number(status, "epoch"), queued_at_s=created_at_s)
    stage = Stage(text(status, "stage"))
    status = bounds.unpack(status)
    memory = mapping(status, "record")
    epoch, restarts = number(status, "epoch"), number(status, "restarts")
    slots = _slots(status)
    state = None
    if stage in (Stage.ADMITTED, Stage.RELEASING, Stage.FINISHED):
        state = _decode_state(memory, list(slots) or list(members), epoch, restarts)
    return TrainingJobRecord(
        stage=stage,
        epoch=epoch,
        restarts=restarts,
        state=state,
        slots=slots,
        reason=text(status, "reason"),
        message=text(status, "message"),
        taken_back=number(memory, "takenBack"),
        not_before_s=_time(memory, "notBefore") or 0.0,
        queued_at_s=_time(status, "queuedAt") or created_at_s,
        admitted_at_s=_time(status, "admittedAt"),
        running_at_s=_time(status, "startedAt"),
        finished_at_s=_time(status, "finishedAt"),
    )


def _memory(record: TrainingJobRecord) -> dict[str, Json]:
    """What only the next look needs."""
    memory: dict[str, Json] = {}
    if record.not_before_s:
        memory["notBefore"] = write_time(record.not_before_s)
    if record.taken_back:
        memory["takenBack"] = record.taken_back
    if any(slot.exclusive for slot in record.slots.values()):
        memory["cpus"] = _by_role(
            record.slots, lambda slot: format_cpus(slot.cpus) if slot.exclusive else ""
        )
        memory["cells"] = _by_role(
            record.slots, lambda slot: format_cpus(slot.cells) if slot.exclusive else ""
        )
    if any(slot.gpus for slot in record.slots.values()):
        memory["gpus"] = _by_role(record.slots, lambda slot: format_cpus(slot.gpus))
    if record.state is not None:
        memory.update(_encode_state(record.state))
    return memory


def _encode_state(state: JobState) -> dict[str, Json]:
    encoded: dict[str, Json] = {"phase": state.phase.value}
    if state.reason:
        encoded["reason"] = bounds.cut(state.reason, bounds.LONGEST_MESSAGE)
    if state.started_at_s is not None:
        encoded["startedAt"] = write_time(state.started_at_s)
    if state.restart_at_s is not None:
        encoded["restartAt"] = write_time(state.restart_at_s)
    if state.outcome is not None and not state.phase.final:
        reason = bounds.cut(state.outcome.reason, bounds.LONGEST_MESSAGE)
        encoded["outcome"] = {"phase": state.outcome.phase.value, "reason": reason}
    began = _common_start(state)
    if began is not None:
        encoded["membersStartedAt"] = write_time(began)
    implied = _IMPLIED.get(state.phase)
    members: dict[str, Json] = {}
    reasons = bounds.MemberReasons()
    for member, one in state.members.items():
        differs = _member(one, implied, began, reasons)
        if differs:
            members[member.name] = differs
    if members:
        encoded["members"] = members
    return encoded


def _common_start(state: JobState) -> float | None:
    counts = Counter(
        member.started_at_s for member in state.members.values() if member.started_at_s
    )
    return counts.most_common(1)[0][0] if counts else None


def _member(
    one: MemberStatus,
    implied: MemberState | None,
    began: float | None,
    reasons: bounds.MemberReasons,
) -> dict[str, Json]:
    written: dict[str, Json] = {}
    if one.state is not implied:
        written["state"] = one.state.value
    if one.attempt:
        written["attempt"] = one.attempt
    if one.restarts:
        written["restarts"] = one.restarts
    if one.batch > 1:
        written["batch"] = one.batch
    if one.exit_code is not None:
        written["exitCode"] = one.exit_code
    if one.reason:
        written["reason"] = reasons.cut(one.reason)
    if one.restart_at_s is not None:
        written["restartAt"] = write_time(one.restart_at_s)
    if one.started_at_s is not None and one.started_at_s != began:
        written["startedAt"] = write_time(one.started_at_s)
    return written


def _decode_state(
    memory: Object, members: Iterable[MemberId], epoch: int, restarts: int
) -> JobState:
    phase = Phase(text(memory, "phase") or Phase.STARTING.value)
    implied = _IMPLIED.get(phase, MemberState.ENDED)
    began = _time(memory, "membersStartedAt")
    written = mapping(memory, "members")
    plain = _decode_member({}, implied, began)
    decoded = {
        member: _decode_member(mapping(written, member.name), implied, began)
        if member.name in written
        else plain
        for member in members
    }
    outcome = mapping(memory, "outcome")
    final = JobOutcome(phase, text(memory, "reason")) if phase.final else None
    return JobState(
        phase=phase,
        members=MappingProxyType(decoded),
        epoch=epoch,
        restarts=restarts,
        batches=max((one.batch for one in decoded.values()), default=0),
        started_at_s=_time(memory, "startedAt"),
        restart_at_s=_time(memory, "restartAt"),
        outcome=JobOutcome(Phase(text(outcome, "phase")), text(outcome, "reason"))
        if outcome
        else final,
        reason=text(memory, "reason"),
    )


def _decode_member(written: Object, implied: MemberState, began: float | None) -> MemberStatus:
    state = MemberState(text(written, "state") or implied.value)
    code = find(written, "exitCode")
    running = state is MemberState.RUNNING
    return MemberStatus(
        state=state,
        placed=True,
        attempt=number(written, "attempt"),
        batch=number(written, "batch") or 1,
        ready=running,
        gate_open=running,
        exit_code=code if isinstance(code, int) else None,
        reason=text(written, "reason"),
        started_at_s=_time(written, "startedAt") or began,
        restart_at_s=_time(written, "restartAt"),
        restarts=number(written, "restarts"),
    )


def _by_role(slots: Mapping[MemberId, Slot], word: Callable[[Slot], str]) -> dict[str, Json]:
    """Role -> one word for each index; empty where a member has no slot."""
    longest: dict[str, int] = {}
    for member in slots:
        longest[member.role] = max(longest.get(member.role, 0), member.index + 1)
    written: dict[str, list[Json]] = {role: [""] * count for role, count in longest.items()}
    for member, slot in slots.items():
        written[member.role][member.index] = word(slot)
    return dict(written)


def _slots(status: Object) -> dict[MemberId, Slot]:
    placement, memory = mapping(status, "placement"), mapping(status, "record")
    slots: dict[MemberId, Slot] = {}
    for role in placement:
        nodes = _words(placement, role)
        held = (_words(mapping(memory, key), role) for key in ("cpus", "cells", "gpus"))
        for index, (node, *ids) in enumerate(zip_longest(nodes, *held, fillvalue="")):
            if node:
                cpus, cells, gpus = map(parse_ids, ids)
                slots[MemberId(role, index)] = Slot(node, cpus, cells, gpus, bool(cpus))
    return slots


def _words(listed: Object, role: str) -> list[str]:
    found = listed.get(role)
    return [str(one) for one in found] if isinstance(found, list | tuple) else []


def _conditions(
    record: TrainingJobRecord, figures: StatusFigures, before: Object, now_s: float
) -> list[Json]:
    """The standard conditions; the time of one changes only when its status does."""
    phase = phase_of(record)
    ended = record.stage is Stage.FINISHED
    holds = {
        "Queued": record.stage in (Stage.QUEUED, Stage.SUSPENDED),
        "Admitted": record.stage is Stage.ADMITTED or ended,
        "Placed": figures.bound,
        "Running": phase == Phase.RUNNING.value,
        "Restarting": phase == Phase.RESTARTING.value,
        "Succeeded": phase == Phase.SUCCEEDED.value,
        "Failed": phase in (Phase.FAILED.value, Phase.STOPPED.value),
    }
    told = {
        "reason": bounds.cut(record.reason, bounds.LONGEST_REASON),
        "message": bounds.cut(record.message, bounds.LONGEST_MESSAGE),
    }
    known = {text(item, "type"): item for item in items(before, "conditions")}
    conditions: list[Json] = []
    for kind in _CONDITIONS:
        value = "True" if holds[kind] else "False"
        old = known.get(kind)
        # Every job has been in the queue, also one that was admitted before that was written.
        if old is None and not holds[kind] and kind != "Queued":
            continue
        since = write_seconds(now_s)
        if old is not None and text(old, "status") == value:
            since = text(old, "lastTransitionTime")
        conditions.append(
            {
                "type": kind,
                "status": value,
                "reason": (told["reason"] or phase) if holds[kind] else phase,
                "message": (told["message"] or phase) if holds[kind] else phase,
                "lastTransitionTime": since,
            }
        )
    return conditions


def _time(value: Json, key: str) -> float | None:
    written = text(value, key)
    return parse_time(written) if written else None
