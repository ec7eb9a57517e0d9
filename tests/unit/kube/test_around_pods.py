"""What a job gets beside its pods: a token, and a policy of who may reach them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from kube.operator import IMAGE, training_job
from mooring.backends.kubernetes.jobs.admission import anywhere
from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import parse_training_job, parse_view
from mooring.backends.kubernetes.objects.network import network_policy_manifest
from mooring.backends.kubernetes.objects.pod_manifest import Image, Owner
from mooring.cli.operator import operator
from mooring.operator.cluster_writer import Around, ClusterWriter
from mooring.operator.controller import Controller, OperatorSettings
from mooring.operator.metrics import Metrics
from unit.kubeapi.answering import answering

OWNER = Owner("j", "ns", "1234-5678")


def created(around: Around, **spec: Any) -> dict[str, list[dict[str, Any]]]:
    """All that is made for a job, by kind."""
    made: dict[str, list[dict[str, Any]]] = {}

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        made.setdefault(body["kind"], []).append(body)
        return web.json_response(body, status=201)

    async def story() -> None:
        job = training_job("j", {"worker": 2}, **spec)
        job["metadata"] |= {"namespace": "ns", "uid": OWNER.uid}
        parsed = parse_training_job(job)
        record = admit(TrainingJobRecord(), anywhere(parsed.gang), parsed.policy, 1000.0)
        async with answering(handle) as client:
            writer = ClusterWriter(client, Image(IMAGE), around=around)
            await writer.create(parse_view(job), parsed, record, list(record.slots))

    asyncio.run(story())
    return made


def test_a_job_owns_its_token_and_its_policy() -> None:
    made = created(Around(lambda uid: f"token of {uid}"))
    [secret], [policy], [service] = made["Secret"], made["NetworkPolicy"], made["Service"]
    for one in (secret, policy, service):
        assert one["metadata"]["ownerReferences"] == [OWNER.reference()]
        assert one["metadata"]["namespace"] == "ns"
    for pod in made["Pod"]:
        env = {one["name"]: one for one in pod["spec"]["containers"][0]["env"]}
        source = env["MOORING_JOB_TOKEN"]["valueFrom"]["secretKeyRef"]
        assert source == {"name": secret["metadata"]["name"], "key": "token"}
        chosen = policy["spec"]["podSelector"]["matchLabels"]
        assert chosen.items() <= pod["metadata"]["labels"].items()
        assert "token of" not in str(pod)


def test_what_is_not_wanted_is_not_made() -> None:
    made = created(Around(network_policy=False), gang=False)
    assert set(made) == {"Service", "Pod"}


def test_only_the_jobs_own_pods_reach_it_but_for_the_port_that_asks_for_the_token() -> None:
    spec: Any = network_policy_manifest(OWNER)["spec"]
    mine = {"matchLabels": {"mooring.dev/job-uid": OWNER.uid}}
    asks = {"ports": [{"port": 5499, "protocol": "TCP"}]}
    assert spec["podSelector"] == mine
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [{"from": [{"podSelector": mine}]}, asks]
    known: Any = network_policy_manifest(OWNER, ["10.0.0.0/28"])["spec"]
    assert known["ingress"][1] == {**asks, "from": [{"ipBlock": {"cidr": "10.0.0.0/28"}}]}


@pytest.mark.parametrize("given", ["10.0.0.1/8", "everywhere", ""])
def test_an_address_range_that_is_none_is_named(given: str) -> None:
    result = CliRunner().invoke(operator, ["--image", "m:1", "--api-server-cidr", given])
    assert result.exit_code == 2
    assert "an address range such as 10.0.0.0/28" in result.output


def test_a_service_that_is_not_there_is_made_whatever_was_made_before() -> None:
    """It may have been deleted while it was being made: it counts as made from then on."""
    made: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        made.append(body["kind"])
        body["metadata"]["resourceVersion"] = "7"
        return web.json_response(body, status=201)

    async def story() -> None:
        job = training_job("j", {"worker": 2})
        job["metadata"] |= {"namespace": "ns", "uid": OWNER.uid}
        view, parsed = parse_view(job), parse_training_job(job)
        record = admit(TrainingJobRecord(), anywhere(parsed.gang), parsed.policy, 1000.0)
        async with answering(handle) as client:
            controller = Controller(client, OperatorSettings(Image(IMAGE)), Metrics())
            for cache in controller._caches.services._caches.values():
                cache.known = True
            controller._writer._served[OWNER.uid] = len(record.slots)
            await controller._serve_again(view, parsed, record)
            # Its answer is known at once: the watch may lag.
            await controller._serve_again(view, parsed, record)

    asyncio.run(story())
    assert made.count("Service") == 1
