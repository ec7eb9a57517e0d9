"""The real node: containers really run, CPUs are really exclusive, names really resolve."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube.cluster import guard, images
from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.real_node import KubeletOptions, RealNode, RealNodes
from kube.killing import killed_maker, left_of
from kube.objects import pod, pods_path
from kube.operator import Flags, Jobs, OperatorProcess, operator, training_job
from mooring.version import VERSION
from support.moor import Moor
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.root]

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
GUARANTEED = {"cpu": "1", "memory": "64Mi"}


def wait_for(plane: ControlPlane, namespace: str, name: str, phase: str) -> Json:
    path = f"{pods_path(namespace)}/{name}"

    def reached() -> Json | None:
        found = plane.admin.get(path)
        now = found["status"]["phase"]
        if now in ("Failed", "Succeeded") and now != phase:
            raise AssertionError(f"{name} is {now}: {plane.admin.text(f'{path}/log')}")
        return found if now == phase else None

    return until(reached, f"{name} {phase}", 60)


def output_of(plane: ControlPlane, namespace: str, name: str) -> str:
    wait_for(plane, namespace, name, "Succeeded")
    return plane.admin.text(f"{pods_path(namespace)}/{name}/log")


def test_a_guaranteed_pod_has_its_cpu_alone(
    control_plane: ControlPlane, real_node: RealNode, namespace: str
) -> None:
    admin = control_plane.admin
    admin.create(pods_path(namespace), pod("shared", SLEEP, requests={"cpu": "100m"}))
    wait_for(control_plane, namespace, "shared", "Running")
    everything = cpus(real_node.cpuset(namespace, "shared", "main"))
    assert everything == os.sched_getaffinity(0)
    admin.create(pods_path(namespace), pod("alone", SLEEP, limits=GUARANTEED))
    wait_for(control_plane, namespace, "alone", "Running")
    alone = cpus(real_node.cpuset(namespace, "alone", "main"))
    assert len(alone) == 1
    until(
        lambda: cpus(real_node.cpuset(namespace, "shared", "main")) == everything - alone,
        "the shared pool without the exclusive CPU",
    )


@pytest.fixture(scope="module")
def unpinned_node(real_nodes: RealNodes) -> Iterator[RealNode]:
    """A second node, with the default CPU manager."""
    with real_nodes.node("unpinned", KubeletOptions(cpu_manager="none")) as node:
        yield node


def test_without_the_static_policy_nobody_has_a_cpu_alone(
    control_plane: ControlPlane, unpinned_node: RealNode, namespace: str
) -> None:
    body = pod("p", SLEEP, limits=GUARANTEED, nodeName=unpinned_node.name)
    control_plane.admin.create(pods_path(namespace), body)
    wait_for(control_plane, namespace, "p", "Running")
    assert cpus(unpinned_node.cpuset(namespace, "p", "main")) == os.sched_getaffinity(0)


def test_the_operator_asks_a_kubelet_and_sends_it_nothing_that_it_cannot_do(
    control_plane: ControlPlane, unpinned_node: RealNode, namespace: str, jobs: Jobs
) -> None:
    job = training_job("own", {"worker": 1}, pinning="exclusive")
    job["spec"]["placement"] = {"nodeSelector": {"kubernetes.io/hostname": unpinned_node.name}}
    with operator(control_plane, namespace, Flags(more=("--kubelet-config",))) as process:
        jobs.create(job)
        said = "1 whose kubelet would not admit it"
        until(lambda: said in jobs.status("own").get("message", ""), "it is told why it waits", 60)
        assert jobs.pods("own") == []
        assert process.defects == []


def test_a_member_on_such_a_node_is_told_why_it_is_not_pinned(
    control_plane: ControlPlane,
    unpinned_node: RealNode,
    operator: OperatorProcess,
    namespace: str,
    jobs: Jobs,
    tmp_path: Path,
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("on one CPU nobody can tell")
    job = training_job("held", {"worker": 1}, cpu=1, memory="128Mi", pinning="exclusive")
    here = {"nodeSelector": {"kubernetes.io/hostname": unpinned_node.name}}
    job["spec"] |= {"placement": here, "gracePeriod": 0}
    job["spec"]["roles"]["worker"]["command"] = SLEEP
    jobs.create(job)
    jobs.wait_phase("held", "Running")
    held = unpinned_node.cpuset(namespace, "held-worker-0", "member")
    assert cpus(held) == os.sched_getaffinity(0)

    def told() -> str:
        return str((jobs.status("held").get("pinning") or {}).get("worker-0", ""))

    # In the status by what the member really holds; in the report by the kubelet's own word.
    said = until(told, "it is known what the member holds", 60)
    assert said.startswith(f"shared {held}: ")
    assert "kubelet does not pin" in said
    where = ("--kubeconfig", control_plane.kubeconfig, "--namespace", namespace)
    [member] = json.loads(Moor(tmp_path)("report", "held", "-o", "json", *where).stdout)["members"]
    assert (member["cpus"], member["exclusive"]) == (held, False)
    assert member["pinning"] == "shared: the kubelet's cpuManagerPolicy is none"
    assert operator.defects == []


def test_pods_find_each_other_by_name_also_on_another_node(
    control_plane: ControlPlane, real_node: RealNode, unpinned_node: RealNode, namespace: str
) -> None:
    admin = control_plane.admin
    service = {
        "metadata": {"name": "job"},
        "spec": {
            "clusterIP": "None",
            "selector": {"job": "job"},
            "publishNotReadyAddresses": True,
        },
    }
    admin.create(f"/api/v1/namespaces/{namespace}/services", service)
    listen = """
import socket
server = socket.create_server(("", 2222))
for attempt in range(2):
    server.accept()[0].send(b"hello")
"""
    named = {"hostname": "worker-0", "subdomain": "job", "nodeName": real_node.name}
    body = pod("w", [sys.executable, "-c", listen], labels={"job": "job"}, **named)
    admin.create(pods_path(namespace), body)
    wait_for(control_plane, namespace, "w", "Running")
    ask = """
import socket, time
for attempt in range(100):
    try:
        print(socket.create_connection(("worker-0.job", 2222), 1).recv(9).decode())
        break
    except OSError:
        time.sleep(0.1)
"""
    for node in (real_node.name, unpinned_node.name):
        body = pod(f"on-{node}", [sys.executable, "-c", ask], nodeName=node)
        admin.create(pods_path(namespace), body)
        assert output_of(control_plane, namespace, f"on-{node}") == "hello\n"


def test_devices_can_be_made_up_and_commands_run_in_pods(
    control_plane: ControlPlane, real_node: RealNode, namespace: str
) -> None:
    real_node.advertise("nvidia.com/gpu", 2)
    limits = {"nvidia.com/gpu": "2"}
    control_plane.admin.create(pods_path(namespace), pod("p", SLEEP, limits=limits))
    wait_for(control_plane, namespace, "p", "Running")
    said = control_plane.kubectl(f"--namespace={namespace}", "exec", "p", "--", "id", "-u")
    assert (said.stdout, said.stderr) == ("1000\n", "")


def test_a_pod_is_nobody_special_and_sees_the_tests_python(
    control_plane: ControlPlane, real_node: RealNode, namespace: str
) -> None:
    ask = """
import os, ssl, sys, urllib.request, numpy, mooring
base = "/var/run/secrets/kubernetes.io/serviceaccount"
url = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}/version"
trusted = ssl.create_default_context(cafile=f"{base}/ca.crt")
urllib.request.urlopen(url, context=trusted).read()
print(os.getuid(), sys.prefix)
"""
    control_plane.admin.create(pods_path(namespace), pod("p", [sys.executable, "-c", ask]))
    assert output_of(control_plane, namespace, "p") == f"1000 {sys.prefix}\n"


def test_the_image_of_mooring_has_the_command_and_the_launcher(
    control_plane: ControlPlane, real_node: RealNode, namespace: str
) -> None:
    home = [{"name": "home", "mountPath": "/mooring"}]
    copies = pod("x", ["cp", "/opt/mooring/launcher.pyz", "/mooring/"], image=images.MOORING)
    [first] = copies["spec"]["containers"]
    first |= {"name": "launcher", "volumeMounts": home}
    body = pod(
        "p",
        [sys.executable, "/mooring/launcher.pyz", "nonsense"],
        initContainers=[first],
        volumes=[{"name": "home", "emptyDir": {}}],
    )
    body["spec"]["containers"][0]["volumeMounts"] = home
    control_plane.admin.create(pods_path(namespace), body)
    control_plane.admin.create(
        pods_path(namespace), pod("moor", ["moor", "--version"], image=images.MOORING)
    )
    wait_for(control_plane, namespace, "p", "Failed")
    told = control_plane.admin.text(f"{pods_path(namespace)}/p/log")
    assert told.startswith("usage: launcher run")
    assert VERSION in output_of(control_plane, namespace, "moor")


@pytest.mark.usefixtures("can_be_a_node")
def test_nothing_is_left_of_a_node_whose_maker_is_killed() -> None:
    before = machine()
    with killed_maker("--real-node") as bed:
        token = bed.name.split("-")[1]
        assert guard.cgroups_of(token)
        assert guard.links_of(token)
    until(lambda: not left_of(bed), f"nothing of {bed.name}", 60)
    assert machine() == before


def machine() -> dict[str, object]:
    """What a kubelet, a runtime and CNI change where nothing keeps them from it."""
    settings = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
    folders = ("/etc/cni", "/run/containerd", "/var/lib/cni", "/var/lib/containerd")
    folders += ("/var/lib/kubelet", "/var/log/containers", "/var/log/pods")
    return {
        **{name: Path("/proc/sys", name).read_text() for name in settings},
        "ip_forward": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        **{name: Path(name).exists() for name in folders},
    }


def cpus(listed: str) -> set[int]:
    found: set[int] = set()
    for part in listed.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
