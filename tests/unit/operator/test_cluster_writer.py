"""In which order the operator makes the pods of gangs, and what a refusal stops; over real HTTP."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from kube.operator import IMAGE, training_job
from mooring.backends.kubernetes.api.errors import Invalid
from mooring.backends.kubernetes.jobs.admission import anywhere
from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import parse_training_job, parse_view
from mooring.backends.kubernetes.objects.pod_manifest import Image
from mooring.operator.cluster_writer import ClusterWriter, Made
from unit.kubeapi.answering import answering
from unit.kubeapi.fake_server import status

PARALLEL = 4
WORKERS = 12


class Server:
    """Makes whatever it is asked for, but for one pod. Several calls are under way at a time: an
    answer takes some turns of the loop."""

    def __init__(self, refused: str = "") -> None:
        self.asked_for: list[str] = []
        self.most_under_way = 0
        self._refused, self._under_way = refused, 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not request.path.endswith("/pods"):
            return web.json_response(body, status=201)
        name = body["metadata"]["name"]
        self.asked_for.append(name)
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        for _ in range(5):
            await asyncio.sleep(0)
        self._under_way -= 1
        if name == self._refused:
            return web.json_response(status(422, "Invalid"), status=422)
        return web.json_response(body, status=201)


async def create(writer: ClusterWriter, name: str) -> Made:
    job = training_job(name, {"worker": WORKERS})
    job["metadata"] |= {"namespace": "ns", "uid": f"uid-{name}"}
    parsed = parse_training_job(job)
    record = admit(TrainingJobRecord(), anywhere(parsed.gang), parsed.policy, 1000.0)
    return await writer.create(parse_view(job), parsed, record, list(record.slots))


def test_the_next_gang_begins_when_the_last_pod_of_this_one_is_under_way() -> None:
    server = Server()

    async def both() -> list[Made]:
        async with answering(server.handle) as client:
            writer = ClusterWriter(client, Image(IMAGE), PARALLEL)
            return await asyncio.gather(create(writer, "one"), create(writer, "other"))

    made = asyncio.run(both())
    assert [len(one.pods) for one in made] == [WORKERS, WORKERS]
    assert sorted(server.asked_for) == sorted(pod.name for one in made for pod in one.pods)
    jobs = [name.partition("-")[0] for name in server.asked_for]
    [second] = {"one", "other"} - {jobs[0]}
    # Calls that are under way together may arrive in any order.
    assert jobs[jobs.index(second) :].count(jobs[0]) < PARALLEL, jobs
    assert 1 < server.most_under_way <= PARALLEL


def test_after_a_refusal_no_pod_is_begun_and_the_next_gang_gets_its_turn() -> None:
    server = Server(refused="one-worker-2")

    async def both() -> Made:
        async with answering(server.handle) as client:
            writer = ClusterWriter(client, Image(IMAGE), PARALLEL)
            with pytest.raises(Invalid, match="said 422"):
                await create(writer, "one")
            of_the_first = list(server.asked_for)
            made = await create(writer, "other")
            assert [name for name in server.asked_for if name.startswith("one-")] == of_the_first
            return made

    assert len(asyncio.run(both()).pods) == WORKERS
    begun = sum(name.startswith("one-") for name in server.asked_for)
    # Two before it, and those that were under way with it or begun before it was answered.
    assert 3 <= begun <= 2 + 2 * PARALLEL


def test_a_cancelled_gang_holds_up_nobody() -> None:
    server = Server()

    async def both() -> Made:
        async with answering(server.handle) as client:
            writer = ClusterWriter(client, Image(IMAGE), PARALLEL)
            first = asyncio.create_task(create(writer, "one"))
            while not server.asked_for:
                await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            return await create(writer, "other")

    assert len(asyncio.run(both()).pods) == WORKERS
    assert sum(name.startswith("one-") for name in server.asked_for) < WORKERS
