"""What is kept of jobs is bounded: their statuses, and all that the operator knows of them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from kube.operator import IMAGE, training_job
from mooring.backends.kubernetes.jobs.admission import anywhere
from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.jobs.status import StatusFigures, decode, encode, urgent
from mooring.backends.kubernetes.jobs.training_job import parse_training_job, parse_view
from mooring.backends.kubernetes.objects.pod_manifest import Image
from mooring.lifecycle import JobState, MemberStatus
from mooring.model.member import MemberId
from mooring.model.plan import Slot
from mooring.model.status import MemberState, Phase
from mooring.operator.controller import Controller, OperatorSettings
from mooring.operator.metrics import Metrics
from unit.kubeapi.answering import answering

#: What is left of etcd's 1.5 MiB for the largest spec that a file can hold, 1 MiB.
ROOM_BYTES = 512 * 1024
FIGURES = StatusFigures(0, 1, "default", 1)


def evicted(members: int, words: str, node: str = "n{}", cpus: int = 0) -> TrainingJobRecord:
    """Members that kubelets have evicted one by one, each with a text of its own."""
    chance = random.Random(7)
    ids = [MemberId("worker", index) for index in range(members)]
    states = {
        one: MemberStatus(
            MemberState.FAILED,
            placed=True,
            batch=1,
            attempt=chance.randrange(3),
            restarts=chance.randrange(3),
            exit_code=chance.randrange(256),
            reason=words.format(*(chance.getrandbits(40) for _ in range(9))),
            started_at_s=1_700_000_000 + chance.random() * 1e6,
        )
        for one in ids
    }
    held = tuple(range(0, 2 * cpus, 2))
    slots = {one: Slot(node.format(one.index), held, (), (), bool(held)) for one in ids}
    state = JobState(Phase.RUNNING, states, epoch=1, batches=1, reason="Evicted")
    return replace(
        TrainingJobRecord(queued_at_s=1.0), stage=Stage.ADMITTED, state=state, slots=slots, epoch=1
    )


EVICTED = "Evicted: The node was low on resource: memory. Threshold quantity: {}, available: {}."


@pytest.mark.parametrize(
    "record",
    [
        evicted(5_000, EVICTED),
        evicted(10_000, "Evicted: " + "{:x} " * 9 + "x" * 5000),
        evicted(
            10_000, "{:x}" * 9, "a-node-of-a-large-cluster-with-a-long-name-{}.example.com", 64
        ),
    ],
    ids=["5,000 evicted", "10,000 with long texts", "10,000 on nodes with long names, pinned"],
)
def test_a_status_of_members_that_all_failed_can_be_stored_and_read_again(
    record: TrainingJobRecord,
) -> None:
    status = encode(record, FIGURES, {}, 10.0)
    assert len(json.dumps(status)) < ROOM_BYTES
    assert record.state is not None
    again = decode(status, list(record.state.members), 0.0)
    assert again.slots == record.slots
    assert again.state is not None
    for member, one in record.state.members.items():
        read = again.state.members[member]
        assert (read.state, read.exit_code, read.attempt) == (one.state, one.exit_code, one.attempt)
        assert read.reason
        assert len(read.reason) <= 200
    # What was read says the same when it is written: else it would be written for ever.
    assert encode(again, FIGURES, status, 10.0) == status


@pytest.mark.parametrize(
    ("state", "is_urgent"), [(MemberState.RUNNING, True), (MemberState.SUCCEEDED, False)]
)
def test_a_change_of_one_member_of_many_is_as_urgent_when_it_is_packed(
    state: MemberState, is_urgent: bool
) -> None:
    """Else a large status would be written for each of its members that has done its work."""
    record = evicted(5_000, EVICTED)
    before = encode(record, FIGURES, {}, 10.0)
    assert not urgent(before, before)
    assert record.state is not None
    last = MemberId("worker", 4_999)
    members = {**record.state.members, last: MemberStatus(state, placed=True)}
    changed = replace(record, state=replace(record.state, members=members))
    assert urgent(before, encode(changed, FIGURES, before, 10.0)) == is_urgent


def test_words_of_others_are_cut() -> None:
    record = replace(evicted(3, "x" * 100_000), message="y" * 100_000, reason="z" * 100_000)
    status = encode(record, FIGURES, {}, 10.0)
    assert len(json.dumps(status)) < 32 * 1024


def containers(of: object, path: str = "") -> Iterator[tuple[str, int]]:
    """Everything in the operator's parts that can grow, by name."""
    for name, value in vars(of).items():
        if isinstance(value, dict | set | list):
            yield f"{path}.{name}", len(value)
        elif name != "_client" and type(value).__module__.startswith("mooring."):
            yield from containers(value, f"{path}.{name}") if hasattr(value, "__dict__") else ()


def job(name: str, version: int) -> dict[str, Any]:
    made = training_job(name, {"worker": 1})
    made["metadata"] |= {
        "namespace": "ns",
        "uid": f"uid-{name}",
        "generation": 1,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return made


def test_nothing_of_a_job_is_kept_when_it_is_gone() -> None:
    """Jobs are admitted, their pods made and their statuses written; then they are deleted."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(await request.json(), status=201)

    async def live() -> tuple[dict[str, int], dict[str, int]]:
        async with answering(answer) as client:
            controller = Controller(client, OperatorSettings(Image(IMAGE)), Metrics())
            caches, before = controller._caches, dict(containers(controller))
            for number in range(20):
                made = job(f"j{number}", 10 + number)
                caches.jobs.put(made)
                view, parsed = parse_view(made), parse_training_job(made)
                record = admit(TrainingJobRecord(), anywhere(parsed.gang), parsed.policy, 1000.0)
                caches.record(view, caches.parsed(view))  # type: ignore[arg-type]
                await controller._statuses.save(view, parsed, record, {}, 1000.0)
                await controller._writer.create(view, parsed, record, list(record.slots))
                await controller.reconcile(view.key)
                for cache in caches.jobs._caches.values():
                    cache.remove(view.key, view.uid)
                await controller.reconcile(view.key)
            await asyncio.sleep(0.1)
            return before, dict(containers(controller))

    before, after = asyncio.run(live())
    # Keys that are due are taken by workers, and none runs here; those that ended are let go of.
    queue = {name for name in after if "._work." in name}
    grown = {name: size for name, size in after.items() if size > before.get(name, 0) + 1}
    assert set(grown) <= queue, grown
    assert {"._writer._served", "._statuses._written", "._caches._parsed_jobs"} <= set(after)
