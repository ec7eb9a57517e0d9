"""A real API server's pods say the same in protobuf as they do in JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import aiohttp
import pytest

from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from kube.objects import pod, pods_path
from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.codec import JSON, PROTOBUF
from mooring.backends.kubernetes.api.credentials import tls_context
from mooring.backends.kubernetes.api.errors import NotFound
from mooring.backends.kubernetes.api.kubeconfig import load_access
from mooring.backends.kubernetes.api.protobuf import LEAN_PODS
from mooring.backends.kubernetes.api.resources import POD
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pod_manifest import Owner
from mooring.backends.kubernetes.objects.pods import PodView, parse_pod
from support.wire import entry, envelope, message

pytestmark = pytest.mark.slow

Found = TypeVar("Found")
MARK = {
    names.MANAGED_BY: names.MANAGER,
    names.JOB: "j",
    names.JOB_UID: "1234",
    names.ROLE: "worker",
    names.EPOCH: "2",
    names.ATTEMPT: "1",
}
DISKS: list[Json] = [
    {"name": "claim", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
    {"name": "gce", "gcePersistentDisk": {"pdName": "pd", "readOnly": True}},
    {"name": "aws", "awsElasticBlockStore": {"volumeID": "vol", "readOnly": True}},
    {"name": "rbd", "rbd": {"monitors": ["m"], "image": "i", "pool": "p", "readOnly": True}},
    {
        "name": "iscsi",
        "iscsi": {"targetPortal": "1.2.3.4:1", "iqn": "iqn.2001-04.a:b", "lun": 0},
    },
    {"name": "scratch", "emptyDir": {}},
]
STATES: dict[str, Json] = {
    "waiting": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
    "running": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
    "running since nobody knows when": {"running": {}},
    "ended": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
}


def ask(plane: ControlPlane, question: Callable[[Client], Awaitable[Found]]) -> Found:
    async def asked() -> Found:
        async with Client(load_access(None, plane.kubeconfig)) as client:
            return await question(client)

    return asyncio.run(asked())


def views(plane: ControlPlane, namespace: str, accept: str) -> list[PodView]:
    async def listed(client: Client) -> list[PodView]:
        pages = [page async for page in client.pages(POD, namespace, accept=accept)]
        return [parse_pod(one) for page in pages for one in page.objects]

    return ask(plane, listed)


@pytest.fixture
def full(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A namespace with a pod of each state, with all that a view is made of."""
    admin, path = control_plane.admin, pods_path(namespace)
    for number, state in enumerate(STATES.values()):
        amounts = {"cpu": "2", "memory": "64Mi", "example.com/card": "1", "nvidia.com/gpu": "1"}
        labels = MARK | {names.INDEX: str(number)}
        name = f"j-worker-{number}"
        made = pod(name, requests=amounts, limits=amounts, labels=labels, volumes=DISKS)
        made["metadata"]["ownerReferences"] = [Owner("j", namespace, "1234").reference()]
        made["metadata"]["annotations"] = {names.CPUS: "0-1", names.GPUS: "2"}
        made["metadata"]["finalizers"] = ["example.com/stays"]
        [member] = made["spec"]["containers"]
        member["name"] = names.CONTAINER
        member["ports"] = [{"containerPort": 80, "hostPort": 8000 + number}]
        made["spec"]["initContainers"] = [{**member, "name": "first", "ports": []}]
        made["spec"]["nodeName"] = "nowhere"
        admin.create(path, made)
        condition = {"type": "PodScheduled", "status": "False", "reason": "R", "message": "M"}
        container = {"name": names.CONTAINER, "state": state, "restartCount": number, "image": "i"}
        told = {
            "phase": "Pending",
            "conditions": [condition],
            "containerStatuses": [
                {**container, "imageID": "", "ready": False, "lastState": STATES["ended"]}
            ],
        }
        admin.patch(f"{path}/j-worker-{number}/status", {"status": told})
    admin.delete(f"{path}/j-worker-0", grace_s=5)
    admin.delete(f"{path}/j-worker-1", grace_s=10**12)
    yield namespace
    for number in range(len(STATES)):
        admin.patch(f"{path}/j-worker-{number}", {"metadata": {"finalizers": None}})


def test_both_forms_say_the_same(control_plane: ControlPlane, full: str) -> None:
    in_json, in_protobuf = (views(control_plane, full, one) for one in (JSON, LEAN_PODS))
    assert in_protobuf == in_json
    first = in_protobuf[0]
    assert first.mark is not None
    assert first.container is not None
    assert (first.deleting, first.delete_by_s > 0, first.host_ports) == (True, True, (8000,))
    assert (first.cpus, first.gpus, first.whole_cpus) == ((0, 1), (2,), 2)
    assert (first.reason, first.container.waiting) == ("R", "ImagePullBackOff")
    assert len(first.volumes) == len(DISKS) - 1
    assert first.resources.count("example.com/card") == 1
    running = [one.container is not None and one.container.running for one in in_protobuf]
    assert running == [False, True, True, False]
    assert in_protobuf[1].deleting


def test_a_watch_is_in_protobuf_too(control_plane: ControlPlane, full: str) -> None:
    async def followed(client: Client) -> list[PodView]:
        pages = [page async for page in client.pages(POD, full, accept=LEAN_PODS)]
        control_plane.admin.patch(
            f"{pods_path(full)}/j-worker-2", {"metadata": {"labels": {names.ATTEMPT: "7"}}}
        )
        changes = client.watch(POD, full, pages[-1].version, accept=LEAN_PODS)
        async for change in changes:
            assert change.kind == "MODIFIED"
            return [parse_pod(change.object)]
        return []

    [seen] = ask(control_plane, followed)
    assert seen == next(one for one in views(control_plane, full, JSON) if one.name == "j-worker-2")


def test_a_refusal_is_understood(control_plane: ControlPlane) -> None:
    async def refused(client: Client) -> None:
        manifest = {**pod("p"), "metadata": {"name": "p", "namespace": "nowhere"}}
        await client.create_unread(POD, manifest, LEAN_PODS)

    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        ask(control_plane, refused)


def test_a_pod_with_a_text_that_is_none_is_seen_all_the_same(
    control_plane: ControlPlane, namespace: str
) -> None:
    """Protobuf's own clients can store bytes that are no UTF-8: they must not end our watch."""
    about = message((1, "odd"), (3, namespace), entry(12, "note", b"\xff\xfe"))
    spec = message((2, message((1, "main"), (2, "i"))))
    raw = envelope("Pod", message((1, about), (2, spec)))

    async def created(client: Client) -> int:
        url = client.access.server + pods_path(namespace)
        tls = tls_context(client.access)
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=raw, headers={"Content-Type": PROTOBUF}, ssl=tls) as response,
        ):
            await response.read()
            return response.status

    assert ask(control_plane, created) == 201
    assert [one.name for one in views(control_plane, namespace, LEAN_PODS)] == ["odd"]
