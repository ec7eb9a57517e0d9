"""What the commands say about jobs of a cluster: logs, reports, renderings and explanations."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Object
from mooring.backends.kubernetes.client.cluster import ClusterNow, read_cluster
from mooring.backends.kubernetes.client.explain import explain_job
from mooring.backends.kubernetes.client.logs import Line, follow_logs, parse_line, read_logs
from mooring.backends.kubernetes.client.render import render
from mooring.backends.kubernetes.client.report import pinning_of, report_of, why
from mooring.backends.kubernetes.jobs.training_job import JobView, parse_view
from mooring.backends.kubernetes.objects.live import MemberLive
from mooring.backends.kubernetes.objects.pod_manifest import Image, Owner
from mooring.launcher import proof
from mooring.model.errors import BadInput
from mooring.spec.load import check_job
from unit.kubeapi.pages import Pages, pages

PODS = "/api/v1/namespaces/team/pods"
STATUS = f"{PODS}/train-worker-0:5499/proxy/status"
SECRET = "/api/v1/namespaces/team/secrets/train-uid"
JOB = "/apis/mooring.dev/v1/namespaces/team/trainingjobs/train"
UID = "uid-train"
NOW_S = 1_000_000.0
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def job(name: str = "train", workers: int = 2, **spec: Any) -> dict[str, Any]:
    resources = spec.pop("resources", {"cpu": 1, "memory": "1Gi"})
    role = {"replicas": workers, "command": ["x"], "resources": resources}
    return {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "team", "uid": UID},
        "spec": {"framework": "indexed", "image": "train:1", "roles": {"worker": role}, **spec},
    }


def view(**more: Any) -> JobView:
    return parse_view({**job(), **more})


def pod(index: int, restarts: int = 0, state: str = "running", **status: Any) -> dict[str, Any]:
    name = f"train-worker-{index}"
    marks = {"job": "train", "job-uid": UID, "role": "worker", "index": str(index)}
    marks |= {"epoch": "0", "attempt": "0"}
    labels = {f"mooring.dev/{key}": value for key, value in marks.items()}
    container: dict[str, Any] = {
        "name": "member",
        "restartCount": restarts,
        "state": {state: {"x": 1}},
    }
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{index}",
            "labels": {"app.kubernetes.io/managed-by": "mooring", **labels},
            "ownerReferences": [Owner("train", "team", UID).reference()],
        },
        "spec": {"nodeName": "n0", "containers": []},
        "status": {"phase": "Running", "containerStatuses": [container], **status},
    }


def node(name: str, cpus: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {
            "allocatable": {"cpu": str(cpus), "memory": "64Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def play(scene: Callable[[Pages, Client], Awaitable[None]]) -> None:
    async def within() -> None:
        async with pages() as (server, client):
            await scene(server, client)

    asyncio.run(within())


# -- logs


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"2026-11-16T00:00:01.5Z said it", Line("2026-11-16T00:00:01.500000000Z", "w", "said it")),
        (b"2026-11-16T00:00:01Z ", Line("2026-11-16T00:00:01.000000000Z", "w", "")),
        (b"2026-11-16T00:00:01.25Z a\r", Line("2026-11-16T00:00:01.250000000Z", "w", "a")),
        (b"2026-11-16T00:00:01Z \xff", Line("2026-11-16T00:00:01.000000000Z", "w", "�")),
    ],
)
def test_times_of_lines_are_of_one_length_so_that_they_sort(raw: bytes, line: Line) -> None:
    found = parse_line(raw, "w")
    assert (found.at, found.member, found.text) == (line.at, line.member, line.text)


def test_logs_are_merged_by_time_and_what_is_missing_is_said() -> None:
    async def scene(server: Pages, client: Client) -> None:
        waits = pod(2, state="waiting")
        server.items(PODS, pod(0), pod(1, restarts=2), waits)
        server.text[f"{PODS}/train-worker-0/log"] = (
            "2026-11-16T00:00:01Z a\n2026-11-16T00:00:03.5Z c\n"
        )
        server.text[f"{PODS}/train-worker-1/log?previous=true"] = "2026-11-16T00:00:02Z b\n"
        server.text[f"{PODS}/train-worker-1/log"] = "2026-11-16T00:00:03.25Z d\n"
        members = [f"worker-{index}" for index in range(4)]
        found = await read_logs(client, view(), members, None)
        assert [line.text for line in found.lines] == ["a", "b", "d", "c"]
        assert list(found.missing) == [
            "worker-1: only the last 2 of 3 starts",
            "worker-2: has not started yet",
            "worker-3: its pod is not there, and its log went with it",
        ]
        assert found.starts == {"worker-0": ("uid-0", 0), "worker-1": ("uid-1", 2)}
        last = await read_logs(client, view(), ["worker-0"], 1)
        assert [line.text for line in last.lines] == ["c"]

    play(scene)


def test_logs_that_the_server_refuses_are_missing_not_an_error() -> None:
    async def scene(server: Pages, client: Client) -> None:
        server.items(PODS, pod(0, restarts=1))
        server.codes[f"{PODS}/train-worker-0/log"] = 403
        found = await read_logs(client, view(), ["worker-0"], None)
        assert (found.lines, list(found.missing)) == ((), ["worker-0: said 403"])

    play(scene)


def test_following_shows_each_line_once_and_ends_with_the_job() -> None:
    async def scene(server: Pages, client: Client) -> None:
        server.items(PODS, pod(0))
        server.text[f"{PODS}/train-worker-0/log"] = (
            "2026-11-16T00:00:01Z a\n2026-11-16T00:00:02Z b\n"
        )
        server.json[JOB] = {**job(), "status": {"phase": "Succeeded"}}
        shown: list[str] = []
        told: list[str] = []
        await follow_logs(
            client, view(), ["worker-0"], None, lambda line: shown.append(line.text), told.append
        )
        assert (shown, told) == (["a", "b"], [])

    play(scene)


# -- report


def test_a_report_joins_the_status_the_pods_and_what_the_launchers_say() -> None:
    async def scene(server: Pages, client: Client) -> None:
        live = {"cpus": [2, 3], "own": True, "threads": 2, "step": 7, "examples": 70, "loss": 0.5}
        server.items(PODS, pod(0), pod(1, state="waiting"))
        server.json[STATUS] = {"members": {"worker-0": live}}
        server.json[SECRET] = {"data": {"token": base64.b64encode(b"a token").decode()}}
        server.tokens[STATUS] = "a token"
        status = {"stage": "Admitted", "phase": "Starting", "placement": {"worker": ["n0", "n1"]}}
        found = await report_of(client, view(status=status))
        first, second = found.members
        assert (first.node, first.state, first.starts, first.cpus) == ("n0", "running", 1, "2-3")
        assert (first.pinning, first.step, first.loss) == ("exclusive", 7, 0.5)
        assert (second.state, second.step, second.cpus) == ("starting", None, "")
        assert found.notes == ()
        document = found.document()
        assert (document["name"], document["phase"]) == ("train", "Starting")
        asked = next(query for query in server.queries if "proof" in query)
        nonce, path = bytes.fromhex(asked["nonce"]), "/status"
        query = "&".join(f"{name}={value}" for name, value in asked.items())
        assert proof.asked_by_holder("a token", path, query) == nonce

    play(scene)


def test_a_report_says_why_there_are_no_figures() -> None:
    async def scene(server: Pages, client: Client) -> None:
        server.items(PODS, pod(0))
        server.codes[SECRET] = 403
        [note] = (await report_of(client, view())).notes
        assert "no figures of its members" in note
        assert "said 403" in note
        del server.codes[SECRET]
        server.json[SECRET] = {"data": {"token": base64.b64encode(b"a token").decode()}}
        server.json[STATUS] = {"members": {"worker-0": {"step": 7}}}
        server.tokens[STATUS] = "of somebody else"
        [note] = (await report_of(client, view())).notes
        assert "does not hold the job's token" in note
        server.items(PODS)
        [note] = (await report_of(client, view())).notes
        assert note == "no figures of its members: the first one does not run"

    play(scene)


@pytest.mark.parametrize(
    ("live", "asked", "policy", "qos", "said"),
    [
        (MemberLive(own=True), True, "", "", "exclusive"),
        (MemberLive(), False, "static", "", "shared: pinning was not asked for"),
        (MemberLive(), True, "static", "Burstable", "only Guaranteed ones are pinned"),
        (MemberLive(), True, "none", "Guaranteed", "cpuManagerPolicy is none"),
        (MemberLive(why="all CPUs"), True, "static", "Guaranteed", "shared: all CPUs"),
        (MemberLive(why="all CPUs"), True, "", "Guaranteed", "is unknown (no right to ask)"),
        (MemberLive(), True, "static", "Guaranteed", "not known whether it has them"),
    ],
)
def test_why_a_member_has_no_cpus_of_its_own(
    live: MemberLive, asked: bool, policy: str, qos: str, said: str
) -> None:
    assert said in pinning_of(live, why(live, asked, policy, qos))


# -- render and explain


def cluster(*nodes: Object) -> ClusterNow:
    found: list[ClusterNow] = []

    async def scene(server: Pages, client: Client) -> None:
        server.items("/api/v1/nodes", *nodes)
        server.items("/api/v1/pods")
        server.items("/apis/mooring.dev/v1/trainingjobs")
        found.append(await read_cluster(client))

    play(scene)
    return found[0]


def rendered(there: ClusterNow, **spec: Any) -> Any:
    written = job(**spec)
    del written["metadata"]["namespace"], written["metadata"]["uid"]
    parsed = check_job(written, "job.yaml")
    return render(parsed, "team", None, there, Image("mooring:1"), NOW_S, "job.yaml")


def test_what_is_optional_may_be_missing_or_forbidden() -> None:
    there = cluster(node("n0", 4))
    assert [one.name for one in there.nodes] == ["n0"]
    assert (there.pools, there.storage) == ((), None)


def test_a_rendering_ends_with_the_pods_on_their_nodes() -> None:
    found = rendered(cluster(node("n0", 4), node("n1", 4)))
    assert [one["kind"] for one in found.objects] == [
        "TrainingJob",
        "Service",
        "Secret",
        "NetworkPolicy",
        "Pod",
        "Pod",
    ]
    assert found.waits == ""
    nodes = [
        term["matchFields"][0]["values"]
        for one in found.objects[4:]
        for term in one["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    ]
    assert sorted(nodes) == [["n0"], ["n1"]]


def test_a_job_that_has_no_room_or_is_held_is_rendered_without_pods() -> None:
    there = cluster(node("n0", 1))
    found = rendered(there, workers=2)
    kinds = [one["kind"] for one in found.objects]
    assert kinds == ["TrainingJob", "Service", "Secret", "NetworkPolicy"]
    assert found.waits == (
        "team/train can never start: it asks for 2 cpu, and the cluster has 1 at most."
    )
    held = rendered(there, workers=1, kubernetes={"suspend": True})
    assert "suspended" in held.waits


def test_a_name_that_is_taken_is_refused() -> None:
    there = ClusterNow((), jobs=(view(),))
    with pytest.raises(BadInput, match="train"):
        rendered(there)


def test_an_explanation_names_the_place_or_what_would_help() -> None:
    there = cluster(node("n0", 1), node("n1", 4))
    fits = explain_job(there, parse_view(job(workers=1, resources={"cpu": 3})), None, NOW_S)
    assert (fits.node, fits.refused, fits.job) == ("n1", None, "team/train")
    assert [one.reasons for one in fits.verdicts if one.node == "n0"] == [
        ("insufficient cpu (has 1 free)",)
    ]
    waits = explain_job(there, parse_view(job(workers=2, resources={"cpu": 3})), None, NOW_S)
    assert waits.node is None and waits.queued
    # 2 x 3 = 6 CPUs, of 1 + 4.
    assert waits.refused == (
        "team/train can never start: it asks for 6 cpu, and the cluster has 5 at most."
    )
    assert waits.changes == (
        "roles.worker.replicas: 1 instead of 2",
        "roles.worker.resources.cpu: 2 instead of 3",
        "1 more node like n1 (4 cpu, 64Gi)",
    )


def test_an_explanation_of_a_job_that_runs_is_where_it_is() -> None:
    there = cluster(node("n0", 4), node("n1", 4))
    status = {"stage": "Admitted", "phase": "Running", "placement": {"worker": ["n1", "n0"]}}
    found = explain_job(there, view(status=status), "worker-0", NOW_S)
    assert (found.node, found.member.name) == ("n1", "worker-0")


def test_an_explanation_of_what_others_decide_says_so() -> None:
    there = cluster(node("n0", 4))
    given = parse_view(job(kubernetes={"scheduler": "default"}))
    assert explain_job(there, given, None, NOW_S).note == (
        "nodes are chosen by 'default', not by Mooring"
    )
    with pytest.raises(BadInput, match="worker-0, worker-1"):
        explain_job(there, view(), "judge", NOW_S)
