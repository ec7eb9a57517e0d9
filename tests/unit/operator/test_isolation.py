"""Whatever one job does to its reader, the queue or its status stays that job's own failure."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kube.operator import training_job
from mooring.backends.kubernetes.api.cache import Cache
from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Key, Object, text
from mooring.backends.kubernetes.api.errors import ApiError, Invalid, Unreachable
from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess
from mooring.backends.kubernetes.api.resources import TRAINING_JOB
from mooring.backends.kubernetes.jobs import admission
from mooring.backends.kubernetes.jobs.admission import anywhere
from mooring.backends.kubernetes.jobs.ask_launcher import ask_launcher
from mooring.backends.kubernetes.jobs.live_figures import Live, pinning_of
from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import parse_training_job, parse_view
from mooring.backends.kubernetes.objects.live import parse_live
from mooring.backends.kubernetes.objects.pod_manifest import Image
from mooring.backends.kubernetes.objects.pods import PodView, parse_pod
from mooring.backends.kubernetes.objects.token import PROOF_HEADER
from mooring.install.status_schema import JOB_STATUS
from mooring.launcher import proof
from mooring.model.errors import BadInput
from mooring.operator import caches, figures_poller, rounds
from mooring.operator.caches import Caches
from mooring.operator.cluster_writer import ClusterWriter
from mooring.operator.controller import Controller, OperatorSettings
from mooring.operator.figures_poller import Asked
from mooring.operator.metrics import Metrics
from mooring.operator.rounds import Rounds
from mooring.operator.statuses import Statuses
from mooring.operator.webhook import webhook_application
from mooring.operator.work import WorkQueue
from unit.kubeapi.answering import answering
from unit.kubeapi.fake_server import status


def nested(levels: int) -> dict[str, Any]:
    """A volume that is nested deeper than Python can recurse."""
    inner: dict[str, Any] = {"end": "x"}
    for _ in range(levels):
        inner = {"in": inner}
    return {"name": "deep", "csi": inner}


def stored(name: str, **kubernetes: Any) -> dict[str, Any]:
    job = training_job(name, {"worker": 1})
    job["metadata"] |= {"namespace": "ns", "uid": f"uid-{name}", "generation": 1}
    job["spec"].setdefault("kubernetes", {}).update(kubernetes)
    return job


def empty_caches() -> Caches:
    return Caches(
        Client(ClusterAccess("http://127.0.0.1:1")),
        namespaces=(),
        resync_s=600.0,
        ask_kubelets=False,
        concerned=lambda key: None,
        moved=lambda key: None,
        bound=lambda key: None,
        room=lambda: None,
        trouble=lambda: None,
    )


@pytest.mark.parametrize("levels", [20, 600, 100_000])
def test_a_job_nested_too_deeply_is_refused_by_its_field(levels: int) -> None:
    with pytest.raises(BadInput, match=r"spec\.kubernetes\.volumes.*16 levels deep"):
        parse_training_job(stored("deep", volumes=[nested(levels)]))


def test_a_reader_that_fails_is_the_jobs_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(obj: object) -> None:
        raise RecursionError

    known = empty_caches()
    monkeypatch.setattr(caches, "parse_training_job", fails)
    parsed = known.parsed(parse_view(stored("bad")))
    assert isinstance(parsed, BadInput)
    assert "cannot be read (RecursionError)" in str(parsed)


def test_an_object_that_cannot_be_parsed_leaves_the_others() -> None:
    def parse(obj: Object) -> str:
        if text(obj, "metadata", "name") == "bad":
            raise RecursionError
        return text(obj, "metadata", "name")

    troubles: list[str] = []
    cache: Cache[str] = Cache(
        Client(ClusterAccess("http://127.0.0.1:1")),
        TRAINING_JOB,
        parse,
        changed=lambda before, after: None,
        trouble=troubles.append,
    )
    cache.put(stored("bad"))
    cache.put(stored("good"))
    assert list(cache) == ["good"]
    assert troubles == ["trainingjobs ns/bad cannot be read: RecursionError()"]


def review(obj: dict[str, Any]) -> dict[str, Any]:
    request = {"uid": "1", "operation": "CREATE", "object": obj, "oldObject": None}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_the_webhook_refuses_what_it_fails_on() -> None:
    def fails(obj: object) -> Any:
        raise RuntimeError("a defect")

    async def ask() -> Any:
        async with (
            TestClient(TestServer(webhook_application(fails))) as client,
            client.post("/validate", json=review(stored("any"))) as response,
        ):
            assert response.status == 200
            return await response.json()

    answer = asyncio.run(ask())["response"]
    assert answer["allowed"] is False
    assert "cannot be read (RuntimeError)" in answer["status"]["message"]


REFUSED = Invalid(422, "Invalid", "steps: must be at least 0", "PUT status")
TOO_LARGE = ApiError(500, "", "etcdserver: request is too large", "PUT status")


class Stage:
    """Rounds over caches that the test fills; what would be written is kept."""

    def __init__(self, refused: frozenset[str] = frozenset(), error: ApiError = REFUSED) -> None:
        self._error = error
        self.caches = empty_caches()
        self.admitted: list[str] = []
        self._refused = refused
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        self.caches.nodes.put(
            {
                "metadata": {"name": "n0", "uid": "n0", "resourceVersion": "1"},
                "status": {
                    "allocatable": amounts,
                    "capacity": amounts,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
        self.rounds = Rounds(
            self.caches,
            self,  # type: ignore[arg-type]
            WorkQueue(),
            Metrics(),
            asyncio.Event(),
            lambda: True,
            lambda: 1000.0,
        )

    async def save(self, view: Any, *rest: Any) -> Any:
        if view.name in self._refused:
            raise self._error
        self.admitted.append(view.name)
        return view


def test_the_queue_goes_on_without_a_job_that_it_fails_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = admission.decide

    def fails_on_bad(candidates: Any, *rest: Any, **more: Any) -> Any:
        if any(one.view.name == "bad" for one in candidates):
            raise RecursionError
        return real(candidates, *rest, **more)

    monkeypatch.setattr(rounds.admission, "decide", fails_on_bad)
    stage = Stage()
    for name in ("bad", "good", "fine"):
        stage.caches.jobs.put(stored(name))
    asyncio.run(stage.rounds.one())
    assert sorted(stage.admitted) == ["fine", "good"]


def test_the_queue_goes_on_without_a_job_whose_record_cannot_be_read() -> None:
    stage = Stage()
    broken = stored("bad")
    broken["status"] = {"stage": "Queued", "record": {"packed": "bm90aGluZw=="}}
    for job in (broken, stored("good")):
        stage.caches.jobs.put(job)
    asyncio.run(stage.rounds.one())
    assert stage.admitted == ["good"]


async def goes_on(task: asyncio.Task[None], seen: asyncio.Event) -> None:
    """Until something is seen; raises what ends the task before."""
    waiting = asyncio.create_task(seen.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    assert not task.done(), task.exception()
    task.cancel()


def test_a_job_that_a_look_fails_on_ends_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        controller = Controller(
            Client(ClusterAccess("http://127.0.0.1:1")), OperatorSettings(Image("x:1")), Metrics()
        )
        seen = asyncio.Event()

        async def look(key: Key) -> None:
            if key == ("ns", "bad"):
                raise RecursionError
            seen.set()

        monkeypatch.setattr(controller, "reconcile", look)
        for name in ("bad", "good"):
            controller._work.add(("ns", name))
        await goes_on(asyncio.create_task(controller._worker()), seen)

    asyncio.run(story())


def test_a_job_whose_figures_cannot_be_read_leaves_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = count()

    async def answers(client: Client, leader: PodView, token: str, path: str) -> Any:
        if token == "bad":
            raise RecursionError
        return {"members": {"worker-0": {"step": next(steps)}}}

    monkeypatch.setattr(figures_poller, "ask_launcher", answers)

    async def story() -> None:
        seen, leader = asyncio.Event(), parse_pod({"metadata": {"name": "p", "namespace": "ns"}})
        jobs = [Asked(("ns", name), name, leader) for name in ("bad", "good")]

        def changed(key: Key) -> None:
            # Once more after the first round: that one has not ended with the bad job.
            if (live := asked.of(key[1])) is not None and live.step:
                seen.set()

        asked = figures_poller.FiguresPoller(
            Client(ClusterAccess("http://127.0.0.1:1")),
            0.001,
            lambda: jobs,
            changed,
            time.time,
            str,
        )
        await goes_on(asyncio.create_task(asked.run()), seen)
        assert asked.of("bad") is None

    asyncio.run(story())


@pytest.mark.parametrize("error", [REFUSED, TOO_LARGE])
def test_the_queue_goes_on_without_a_job_whose_status_is_refused(error: ApiError) -> None:
    stage = Stage(frozenset({"bad"}), error)
    for name in ("bad", "good"):
        stage.caches.jobs.put(stored(name))

    async def two_rounds() -> None:
        await stage.rounds.one()
        await stage.rounds.one()

    asyncio.run(two_rounds())
    assert stage.admitted == ["good"]


def test_a_status_that_is_refused_is_written_without_figures() -> None:
    written: list[dict[str, Any]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        written.append(body["status"])
        if "steps" in body["status"]:
            return web.json_response(status(422, "Invalid"), status=422)
        return web.json_response(body)

    async def story() -> None:
        async with answering(handle) as client:
            writer = ClusterWriter(client, Image("x:1"))
            live = Live(examples_per_s=1.0, step=3)
            statuses = Statuses(writer, empty_caches().jobs, WorkQueue(), lambda uid: live)
            job = stored("j")
            view, parsed = parse_view(job), parse_training_job(job)
            record = admit(TrainingJobRecord(), anywhere(parsed.gang), parsed.policy, 1000.0)
            await statuses.save(view, parsed, record, {}, 1000.0)

    asyncio.run(story())
    assert [("steps" in one) for one in written] == [True, False]
    assert written[1]["stage"] == "Admitted"


HOSTILE: list[Any] = [
    {"step": -1, "total": -5, "examples": -3},
    {"step": 1e400, "examples": float("nan"), "loss": float("inf")},
    {"step": 2**70, "threads": -(2**70), "examples": 10**400},
    {"cpus": [-1, 2**80, "x", None], "own": "yes", "own_why": "y" * 100_000},
    {"cpus": list(range(0, 200_000, 2)), "own_why": "\x1b[31mred\x00"},
    {"step": True, "own_why": ["not", "text"]},
    [],
    None,
]


@pytest.mark.parametrize("told", HOSTILE, ids=range(len(HOSTILE)))
def test_what_pods_say_fits_into_a_status(told: Any) -> None:
    members = parse_live({"members": {"worker-0": told, "n" * 5000: {"cpus": [1]}}})
    assert set(members) == {"worker-0"}
    one = members["worker-0"]
    assert all(value is None or value >= 0 for value in (one.step, one.total, one.examples))
    longest = JOB_STATUS["properties"]["pinning"]["additionalProperties"]["maxLength"]
    for words in pinning_of(members).values():
        assert len(words) <= longest
        assert words.isprintable()


LEADER = parse_pod({"metadata": {"name": "p", "namespace": "ns"}})


def test_a_long_answer_of_a_pod_is_none_before_it_has_been_read() -> None:
    whole_bytes, piece = 64 * 2**20, b"x" * 2**18
    sent_bytes = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal sent_bytes
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while sent_bytes < whole_bytes:
                await response.write(piece)
                sent_bytes += len(piece)
        return response

    async def story() -> None:
        async with answering(handle) as client:
            with pytest.raises(Unreachable, match="an answer of over 4194304 bytes"):
                await ask_launcher(client, LEADER, "a token", "/status")

    asyncio.run(story())
    assert sent_bytes < whole_bytes / 2


def answered_by(token: str, body: bytes, **headers: str) -> Callable[..., Awaitable[web.Response]]:
    """A pod that answers with this body and the proof of this token."""

    async def handle(request: web.Request) -> web.Response:
        path = f"/{request.path.rpartition('/')[2]}"
        nonce = proof.asked_by_holder("the token", path, request.query_string)
        shown = proof.prove(token, proof.ANSWER, nonce, body).hex()
        kind = {"Content-Type": "application/json", PROOF_HEADER: shown}
        return web.Response(body=body, headers={**kind, **headers})

    return handle


def ask(handle: Callable[..., Awaitable[web.Response]]) -> Any:
    async def asked() -> Any:
        async with answering(handle) as client:
            return await ask_launcher(client, LEADER, "the token", "/status")

    return asyncio.run(asked())


def test_an_answer_that_comes_packed_is_not_unpacked() -> None:
    """Else a few kilobytes would become as many megabytes before anybody counts them."""
    packed = gzip.compress(b'{"members": {}}')
    for encoding in ("gzip", "deflate"):
        with pytest.raises(Unreachable, match="is no object"):
            ask(answered_by("the token", packed, **{"Content-Encoding": encoding}))


def test_figures_are_believed_of_whoever_holds_the_token() -> None:
    body = b'{"members": {"worker-0": {"step": 7}}}'
    assert ask(answered_by("the token", body)) == {"members": {"worker-0": {"step": 7}}}
    for token in ("another", ""):
        with pytest.raises(Unreachable, match="does not hold the job's token"):
            ask(answered_by(token, body))
