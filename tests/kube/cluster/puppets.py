"""A stand-in for the kubelets of fake nodes: it says of their pods what a kubelet would say.

Bound pods go Running and Ready with an address; deleted ones vanish. How a pod ends is the test's
to say. What a kubelet itself decides is tried on hollow nodes and on the real one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count

from kube.cluster.client import ApiError, Client, Json
from kube.cluster.fake_nodes import MARK

PODS = "/api/v1/pods"
WORKERS = 8


class Puppets:
    """Made by `puppets()`, below."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._held: set[tuple[str, str]] = set()
        self._addresses = count(1)
        self._ended = threading.Event()
        self._nodes: set[str] = set()

    def hold(self, namespace: str, name: str) -> None:
        """This pod stays Pending on its node, as if its image were being pulled."""
        self._held.add((namespace, name))

    def release(self, namespace: str, name: str) -> None:
        self._held.discard((namespace, name))
        self._see(self._client.get(_path(namespace, name)))

    def release_all(self) -> None:
        """Nothing is held any more; for pods that are gone by now."""
        self._held.clear()

    def finish(self, namespace: str, name: str, exit_code: int = 0, reason: str = "") -> None:
        """All of the pod's containers end with this code."""
        pod = self._client.get(_path(namespace, name))
        ended: Json = {"exitCode": exit_code, "finishedAt": _now()}
        ended["reason"] = reason or ("Error" if exit_code else "Completed")
        state = {"terminated": ended}
        phase = "Failed" if exit_code else "Succeeded"
        self._client.patch(f"{_path(namespace, name)}/status", _status(pod, phase, state))

    def restart(self, namespace: str, name: str, exit_code: int = 1) -> None:
        """The pod's first container ended with this code, and its kubelet started it again."""
        pod = self._client.get(_path(namespace, name))
        body = _status(pod, "Running", {"running": {"startedAt": _now()}})
        [first, *_] = body["status"]["containerStatuses"]
        [before, *_] = pod["status"]["containerStatuses"]
        ended = {"exitCode": exit_code, "reason": "Error", "finishedAt": _now()}
        first["lastState"] = {"terminated": ended}
        first["restartCount"] = before["restartCount"] + 1
        self._client.patch(f"{_path(namespace, name)}/status", body)

    def turn_away(self, namespace: str, name: str, reason: str = "OutOfcpu") -> None:
        """The node refuses the pod that was bound to it."""
        status = {"phase": "Failed", "reason": reason, "message": "Pod was rejected"}
        self._client.patch(f"{_path(namespace, name)}/status", {"status": status})

    def run(self) -> None:
        with ThreadPoolExecutor(WORKERS) as pool:
            while not self._ended.is_set():
                try:
                    listed = self._client.get(PODS)
                    list(pool.map(self._see, listed["items"]))
                    self._follow(pool, listed["metadata"]["resourceVersion"])
                except (ApiError, OSError, ValueError):
                    # The API server is away, or the watch was too old: begin again.
                    self._ended.wait(0.2)

    def _follow(self, pool: ThreadPoolExecutor, version: str) -> None:
        with self._client.watch(PODS, timeout_s=2, resourceVersion=version) as events:
            for event in events:
                if self._ended.is_set():
                    return
                if event.type in ("ADDED", "MODIFIED"):
                    pool.submit(self._see, event.object)

    def _see(self, pod: Json) -> None:
        about = pod["metadata"]
        where = (about["namespace"], about["name"])
        try:
            if not self._is_mine(pod["spec"].get("nodeName", "")):
                return
            if "deletionTimestamp" in about:
                self._client.delete(_path(*where), grace_s=0, missing_ok=True)
            elif pod["status"].get("phase") == "Pending" and where not in self._held:
                address = next(self._addresses)
                state = {"running": {"startedAt": _now()}}
                body = _status(pod, "Running", state)
                # Events of one pod are seen side by side: none may undo what has come of it since.
                body["metadata"] = {"resourceVersion": about["resourceVersion"]}
                body["status"]["podIP"] = f"192.0.{2 + address // 250}.{address % 250 + 1}"
                self._client.patch(f"{_path(*where)}/status", body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _is_mine(self, node: str) -> bool:
        if node and node not in self._nodes:
            found = self._client.items("/api/v1/nodes", labelSelector=f"{MARK}=true")
            self._nodes = {each["metadata"]["name"] for each in found}
        return node in self._nodes

    def end(self) -> None:
        self._ended.set()


@contextmanager
def puppets(client: Client) -> Iterator[Puppets]:
    made = Puppets(client)
    thread = threading.Thread(target=made.run, name="puppets")
    thread.start()
    try:
        yield made
    finally:
        made.end()
        thread.join()


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(pod: Json, phase: str, state: Json) -> Json:
    running = phase == "Running"
    truth = {
        "PodScheduled": True,
        "Initialized": True,
        "ContainersReady": running,
        "Ready": running,
    }
    conditions = [
        {"type": type_, "status": str(value), "lastTransitionTime": _now()}
        for type_, value in truth.items()
    ]
    done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    status = {
        "phase": phase,
        "startTime": pod["status"].get("startTime", _now()),
        "conditions": conditions,
        "containerStatuses": [
            _container_status(container, state, running) for container in _containers(pod, False)
        ],
        "initContainerStatuses": [
            _container_status(container, done, True) for container in _containers(pod, True)
        ],
    }
    return {"status": status}


def _containers(pod: Json, first: bool) -> list[Json]:
    found: list[Json] = pod["spec"].get("initContainers" if first else "containers", [])
    return found


def _container_status(container: Json, state: Json, ready: bool) -> Json:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "restartCount": 0,
        "ready": ready,
        "started": "running" in state,
        "state": state,
    }
