"""Pools have owners: whose jobs may use one, and how high their priority may go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from kube.operator import training_job
from mooring.backends.kubernetes.jobs.admission import anywhere, candidate
from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.pool_access import PoolAccess, Pools
from mooring.backends.kubernetes.jobs.pools import access_rules, parse_pool
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import parse_training_job, parse_view
from mooring.backends.kubernetes.objects.pod_manifest import Image
from mooring.model.errors import BadInput, Problem
from mooring.operator.controller import Controller, OperatorSettings
from mooring.operator.metrics import Metrics
from mooring.operator.webhook import refusals
from mooring.spec import TrainingJob
from unit.kubeapi.answering import answering
from unit.operator.test_isolation import Stage


def pool(name: str, **spec: Any) -> dict[str, Any]:
    about = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5"}
    return {"kind": "Pool", "metadata": about, "spec": spec}


def job(namespace: str, **spec: Any) -> dict[str, Any]:
    made = training_job("j", {"worker": 1}, **spec)
    made["metadata"] |= {"namespace": namespace, "uid": f"uid-{namespace}", "generation": 1}
    made["metadata"]["resourceVersion"] = "7"
    return made


ADS = pool("ads", namespaces=["ads"], maxPriority="high")
DEFAULT = pool("default", maxPriority="normal")


def refused(pools: list[dict[str, Any]], namespace: str, **spec: Any) -> list[str]:
    parsed = parse_training_job(job(namespace, **spec))
    rules = access_rules(map(parse_pool, pools))
    return [one.path for one in rules.refusals(parsed.job, parsed.priority, namespace)]


@pytest.mark.parametrize(
    ("namespace", "spec", "paths"),
    [
        ("ads", {"pool": "ads", "priority": "high"}, []),
        ("ads", {"pool": "ads", "priority": 61}, ["spec.priority"]),
        ("other", {"pool": "ads"}, ["spec.pool"]),
        ("other", {"pool": "ads", "priority": "urgent"}, ["spec.pool", "spec.priority"]),
        ("other", {}, []),
        ("other", {"priority": "high"}, ["spec.priority"]),
        # A name that nobody described is no way around the limit.
        ("other", {"pool": "made-up", "priority": "urgent"}, ["spec.priority"]),
        ("other", {"pool": "made-up", "priority": "low"}, []),
    ],
)
def test_a_pool_says_who_may_use_it_and_how_high(
    namespace: str, spec: dict[str, Any], paths: list[str]
) -> None:
    assert refused([ADS, DEFAULT], namespace, **spec) == paths


def test_pools_that_say_nothing_are_open() -> None:
    assert refused([pool("ads", guaranteed={"cpu": 4})], "x", pool="ads", priority="urgent") == []
    assert refused([], "x", pool="ads", priority="urgent") == []


@pytest.mark.parametrize("spec", [{"namespaces": "ads"}, {"maxPriority": "highest"}])
def test_a_pool_whose_access_cannot_be_read_is_closed(spec: dict[str, Any]) -> None:
    assert refused([pool("ads", **spec)], "ads", pool="ads") == ["spec.pool"]


def test_a_running_job_cannot_climb_and_is_not_ended() -> None:
    """It was admitted before the pool became strict, or edited past the webhook."""
    made = job("other", pool="ads", priority="urgent")
    parsed = parse_training_job(made)
    record = admit(TrainingJobRecord(), anywhere(parsed.gang), parsed.policy, 0.0)
    one = candidate(parse_view(made), parsed, record, access_rules(map(parse_pool, [ADS, DEFAULT])))
    assert one is not None
    assert (one.pool, one.priority) == ("default", 0)


def test_the_queue_does_not_see_a_job_that_may_not_use_its_pool() -> None:
    stage = Stage()
    stage.caches.pools.put(ADS)
    foreign, own = job("other", pool="ads", priority="urgent"), job("ads", pool="ads")
    foreign["metadata"]["name"] = "foreign"
    for one in (foreign, own):
        stage.caches.jobs.put(one)
    asyncio.run(stage.rounds.one())
    assert stage.admitted == ["j"]


def test_the_operator_rejects_a_job_that_may_not_use_its_pool() -> None:
    """Its author is told: the webhook may have been down."""
    written: list[dict[str, Any]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if request.path.endswith("/status"):
            written.append(body["status"])
        return web.json_response(body, status=201)

    async def story() -> None:
        async with answering(handle) as client:
            controller = Controller(client, OperatorSettings(Image("x:1")), Metrics())
            controller._caches.pools.put(ADS)
            for namespace in ("other", "ads"):
                controller._caches.jobs.put(job(namespace, pool="ads"))
                await controller.reconcile((namespace, "j"))

    asyncio.run(story())
    # The other one waits in the queue, which has not said anything of it yet.
    [said] = written
    assert (said["phase"], said["reason"]) == ("Failed", "Rejected")
    assert "spec.pool" in said["message"]


def allowed(job: TrainingJob, namespace: str) -> list[Problem]:
    rules = Pools({"ads": PoolAccess(frozenset({"ads"}), 60)})
    priority = job.spec.priority
    assert isinstance(priority, int)
    return list(rules.refusals(job, priority, namespace))


@pytest.mark.parametrize(
    ("operation", "old", "new", "paths"),
    [
        ("CREATE", None, {"pool": "ads", "priority": 0}, ["spec.pool"]),
        ("UPDATE", {"priority": 0}, {"pool": "ads", "priority": 0}, ["spec.pool"]),
        # It was there before the pool became strict.
        ("UPDATE", {"pool": "ads", "priority": 0}, {"pool": "ads", "timeLimit": "1h"}, []),
    ],
)
def test_the_webhook_refuses_a_foreign_pool(
    operation: str, old: dict[str, Any] | None, new: dict[str, Any], paths: list[str]
) -> None:
    review = {
        "operation": operation,
        "namespace": "other",
        "object": job("other", **{"priority": 0, **new}),
        "oldObject": job("other", **old) if old is not None else None,
    }
    found = refusals(review, lambda obj: parse_training_job(obj).job, allowed)
    assert [one.path for one in found] == paths


def test_the_webhook_refuses_a_pool_with_a_priority_class_that_there_is_not() -> None:
    review = {"operation": "CREATE", "object": pool("ads", maxPriority="highest")}

    def fails(obj: object) -> TrainingJob:
        raise BadInput("x", [])

    [problem] = refusals(review, fails)
    assert problem.path == "spec.maxPriority"
    assert "urgent" in problem.accepted
