"""The pods of a job: held to the published `restricted` standard, and shaped for the kubelet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.backends.kubernetes.jobs.gang_manifests import pod_manifests
from mooring.backends.kubernetes.jobs.look import admit
from mooring.backends.kubernetes.jobs.record import TrainingJobRecord
from mooring.backends.kubernetes.jobs.training_job import parse_training_job, parse_view
from mooring.backends.kubernetes.objects.contract import peer_runs
from mooring.backends.kubernetes.objects.pod_manifest import Image
from mooring.backends.kubernetes.objects.pods import parse_pod
from mooring.launcher.contract import Contract
from mooring.launcher.errors import LaunchError
from mooring.launcher.pod import read_document
from mooring.model.cluster import Snapshot
from mooring.model.errors import BadInput
from mooring.model.launch import Address
from mooring.model.member import MemberId
from mooring.placing import plan_job
from mooring.spec.load import parse_cluster

CLUSTER = """
apiVersion: mooring.dev/v1
kind: Cluster
nodes:
  - {namePrefix: n, count: 4, cpus: 8, memory: 64Gi, extended: {example.com/fpga: 2}}
"""


def pods_of(
    spec: dict[str, Any], annotations: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    obj = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {
            "name": "j",
            "namespace": "team",
            "uid": "uid-1",
        },
        "spec": {
            "framework": "indexed",
            "image": "registry.example/train:1",
            "command": ["python", "train.py"],
            **spec,
        },
    }
    parsed = parse_training_job(obj)
    _, plan = plan_job(parsed.job, Snapshot(parse_cluster(CLUSTER, "c")))
    record = admit(TrainingJobRecord(), plan, parsed.policy, 0.0)  # type: ignore[arg-type]
    view = parse_view(obj)
    members = [member.id for member in parsed.gang.members]
    image = Image("registry.example/mooring:1")
    return list(pod_manifests(parsed, view.owner, record, members, image, has_files=view.has_files))


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]


def env_of(pod: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}


def test_pods_pass_the_restricted_standard() -> None:
    """The published rules of Pod Security `restricted`, each by name."""
    for pod in pods_of({"roles": {"worker": {"replicas": 2}}}):
        spec = pod["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)  # Host Namespaces
        allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"}
        allowed |= {"persistentVolumeClaim", "projected", "secret"}
        for volume in spec["volumes"]:
            assert set(volume) - {"name"} <= allowed  # Volume Types, HostPath Volumes
        assert spec["securityContext"]["runAsNonRoot"] is True  # Running as Non-root
        assert spec["securityContext"]["runAsUser"] != 0  # Running as Non-root user
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"  # Seccomp
        for container in containers(pod):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False  # Privilege Escalation
            assert context["capabilities"] == {"drop": ["ALL"]}  # Capabilities
            assert not context.get("privileged")  # Privileged Containers
            assert all("hostPort" not in port for port in container.get("ports", ()))  # Host Ports


@pytest.mark.parametrize(
    ("role", "extra", "quality"),
    [
        # exclusive: every container has limits equal to requests, so the pod is Guaranteed
        ({"resources": {"cpu": 2, "memory": "1Gi"}}, {"pinning": "exclusive"}, "Guaranteed"),
        ({"resources": {"cpu": 2, "memory": "1Gi"}}, {}, "Burstable"),
        ({}, {}, "BestEffort"),
    ],
)
def test_quality_of_service(role: dict[str, Any], extra: dict[str, Any], quality: str) -> None:
    (pod,) = pods_of({"roles": {"worker": role}, **extra})
    resources = [container.get("resources", {}) for container in containers(pod)]
    if all(
        one.get("requests")
        and one.get("requests") == one.get("limits")
        and {"cpu", "memory"} <= set(one["limits"])
        for one in resources
    ):
        found = "Guaranteed"
    elif any(resources):
        found = "Burstable"
    else:
        found = "BestEffort"
    assert found == quality


def test_a_pinned_pod_without_memory_is_refused_with_the_reason() -> None:
    with pytest.raises(BadInput, match=r"spec\.roles\.worker\.resources\.memory.*Guaranteed"):
        pods_of({"roles": {"worker": {"resources": {"cpu": 2}}}, "pinning": "exclusive"})


def test_a_job_without_an_image_is_refused() -> None:
    with pytest.raises(BadInput, match=r"spec\.image"):
        pods_of({"image": None, "roles": {"worker": {}}})


def test_extended_resources_are_requests_and_limits() -> None:
    (pod,) = pods_of({"roles": {"worker": {"resources": {"example.com/fpga": 2}}}})
    *_, container = containers(pod)
    assert container["resources"] == {
        "requests": {"example.com/fpga": "2"},
        "limits": {"example.com/fpga": "2"},
    }


def test_each_pod_may_only_go_to_its_node() -> None:
    pods = pods_of({"roles": {"worker": {"replicas": 4, "resources": {"cpu": 8}}}})
    nodes = []
    for pod in pods:
        (term,) = pod["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        (field,) = term["matchFields"]
        assert (field["key"], field["operator"]) == ("metadata.name", "In")
        nodes += field["values"]
    assert sorted(nodes) == ["n-0", "n-1", "n-2", "n-3"]


@pytest.mark.parametrize(("role", "counted"), [({}, True), ({"resources": {"cpu": 2}}, False)])
def test_members_on_a_node_that_asked_for_no_cpus_divide_it(
    role: dict[str, Any], counted: bool
) -> None:
    pods = pods_of({"placement": {"preset": "pack"}, "roles": {"worker": {"replicas": 3, **role}}})
    nodes = []
    for pod in pods:
        (term,) = pod["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        nodes += term["matchFields"][0]["values"]
    sharers = [json.loads(env_of(pod)["MOORING_CONTRACT"]).get("sharers", 1) for pod in pods]
    assert max(nodes.count(node) for node in nodes) > 1
    assert sharers == [nodes.count(node) if counted else 1 for node in nodes]


def test_dollars_reach_the_program_as_they_were_written() -> None:
    """Kubernetes reads $(X) as a variable and $$ as $: both must survive."""
    (pod,) = pods_of({"roles": {"worker": {}}, "env": {"A": "$(HOME) $$ $x", "B": "plain"}})
    assert env_of(pod)["A"] == "$$(HOME) $$$$ $$x"
    assert env_of(pod)["B"] == "plain"
    assert "$(" not in env_of(pod)["MOORING_CONTRACT"].replace("$$(", "")


def test_variables_that_a_pod_cannot_name_travel_in_the_contract() -> None:
    (pod,) = pods_of({"roles": {"worker": {}}, "env": {"WITH SPACE": "x", "GOOD": "y"}})
    assert "WITH SPACE" not in env_of(pod)
    contract = json.loads(env_of(pod)["MOORING_CONTRACT"])
    assert contract["env"] == {"WITH SPACE": "x"}


def test_what_names_all_members_is_packed_in_a_large_gang(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """100 hosts of 22 characters are over 1 KiB; the launcher gives the program the whole text."""
    own = "x" * 2000
    few, many = (
        pods_of({"roles": {"worker": {"replicas": count}}, "env": {"MINE": own}})[-1]
        for count in (2, 100)
    )
    assert env_of(few)["VC_WORKER_HOSTS"] == "j-worker-0.j.team.svc,j-worker-1.j.team.svc"
    contract = env_of(many)["MOORING_CONTRACT"]
    assert set(json.loads(contract)["packed_env"]) == {"VC_WORKER_HOSTS", "MOORING_PEERS"}
    assert not {"VC_WORKER_HOSTS", "MOORING_PEERS"} & set(env_of(many))
    assert env_of(many)["MINE"] == own
    monkeypatch.setenv("MOORING_CONTRACT", contract.replace("/mooring", str(tmp_path)))
    monkeypatch.setenv("MOORING_JOB_TOKEN", "a token")
    env = Contract({**read_document(), "cwd": "/"}).env
    hosts = [f"j-worker-{index}.j.team.svc" for index in range(100)]
    assert env["VC_WORKER_HOSTS"].split(",") == hosts
    assert json.loads(env["MOORING_PEERS"]) == {"worker": [f"{host}:5500" for host in hosts]}


@pytest.mark.parametrize("packed", [{"A": "no base64!"}, {"A": "AAAA"}, {"A": 1}, ["A"]])
def test_what_cannot_be_unpacked_is_named(monkeypatch: pytest.MonkeyPatch, packed: Any) -> None:
    monkeypatch.setenv("MOORING_CONTRACT", json.dumps({"packed_env": packed}))
    with pytest.raises(LaunchError, match="packed_env"):
        read_document()


def test_peers_are_named_by_the_service_and_the_first_member_leads() -> None:
    first, second = pods_of({"roles": {"worker": {"replicas": 2}}})
    one, two = (json.loads(env_of(pod)["MOORING_CONTRACT"]) for pod in (first, second))
    with pytest.raises(LaunchError, match="anyone could come in"):
        Contract(one)
    told = {**one, "meeting": {**one["meeting"], "token": "a token"}}
    assert [peer.host for peer in Contract(told).peers] == [
        "j-worker-0.j.team.svc",
        "j-worker-1.j.team.svc",
    ]
    assert one["meeting"] == {
        "host": "j-worker-0.j.team.svc",
        "port": 5499,
        "leads": True,
        "members": 2,
        "token_env": "MOORING_JOB_TOKEN",
    }
    assert not two["meeting"].get("leads")
    assert first["spec"]["hostname"] == first["metadata"]["name"] == "j-worker-0"
    assert first["spec"]["subdomain"] == "j"


def test_secrets_are_named_never_copied() -> None:
    (pod,) = pods_of(
        {
            "roles": {"worker": {}},
            "kubernetes": {"secretEnv": {"TOKEN": {"secret": "s", "key": "k"}}},
        }
    )
    (token,) = (e for e in pod["spec"]["containers"][0]["env"] if e["name"] == "TOKEN")
    assert token == {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def test_variables_from_config_maps_and_of_the_pod_itself() -> None:
    (pod,) = pods_of(
        {
            "roles": {"worker": {"kubernetes": {"fieldEnv": {"NODE": "spec.nodeName"}}}},
            "kubernetes": {"configMapEnv": {"BATCH": {"configMap": "c", "key": "k"}}},
        }
    )
    found = {
        e["name"]: e["valueFrom"] for e in pod["spec"]["containers"][0]["env"] if "valueFrom" in e
    }
    assert found == {
        "BATCH": {"configMapKeyRef": {"name": "c", "key": "k"}},
        "NODE": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "MOORING_JOB_TOKEN": {"secretKeyRef": {"name": "j-uid", "key": "token"}},
    }


def test_who_restarts_alone_restarts_in_place() -> None:
    pods = pods_of(
        {
            "framework": "tensorflow",
            "strategy": "parameter-server",
            "roles": {"chief": {}, "ps": {"restart": "member"}, "worker": {"restart": "gang"}},
        }
    )
    policies = {
        pod["metadata"]["labels"]["mooring.dev/role"]: pod["spec"]["restartPolicy"] for pod in pods
    }
    assert policies["ps"] == "OnFailure"
    assert policies["worker"] == "Never"


def test_what_is_written_is_read_back() -> None:
    (pod,) = pods_of(
        {"roles": {"worker": {"resources": {"cpu": 2, "memory": "1Gi"}}}, "pinning": "exclusive"}
    )
    stored = yaml.safe_load(yaml.safe_dump(pod))
    view = parse_pod({**stored, "status": {"phase": "Pending"}})
    assert view.mark is not None
    assert (view.mark.job, view.mark.job_uid, str(view.mark.member)) == ("j", "uid-1", "worker-0")
    assert view.resources.cpu_millis == 2000
    assert len(view.cpus) == 2


def test_shares_of_gpus_are_not_for_pods_yet() -> None:
    roles = {"worker": {"resources": {"cpu": 1, "memory": "1Gi", "gpu": 0.25}}}
    with pytest.raises(BadInput) as raised:
        pods_of({"roles": roles})
    (problem,) = raised.value.problems
    assert problem.path == "spec.roles.worker.resources.gpu"
    assert problem.found == "0.25"
    assert "whole GPUs" in problem.accepted


@pytest.mark.parametrize(
    ("hosts", "runs"),
    [
        # Two roles: a run ends with its role.
        (
            [("ps", 0, "j-ps-0.j.x.svc"), ("ps", 1, "j-ps-1.j.x.svc"), ("w", 0, "j-w-0.j.x.svc")],
            [("ps-{}", "j-ps-{}.j.x.svc", 0, 2), ("w-{}", "j-w-{}.j.x.svc", 0, 1)],
        ),
        # A gang that was shrunk has gaps.
        (
            [("w", 1, "j-w-1.j.x.svc"), ("w", 3, "j-w-3.j.x.svc"), ("w", 4, "j-w-4.j.x.svc")],
            [("w-{}", "j-w-{}.j.x.svc", 1, 1), ("w-{}", "j-w-{}.j.x.svc", 3, 2)],
        ),
        # Hosts that follow no rule are kept as they are.
        (
            [("w", 0, "10.0.0.7"), ("w", 1, "10.0.0.9")],
            [("w-{}", "10.0.0.7", 0, 1), ("w-{}", "10.0.0.9", 1, 1)],
        ),
    ],
)
def test_peers_are_written_as_runs(
    hosts: list[tuple[str, int, str]], runs: list[tuple[str, str, int, int]]
) -> None:
    addresses = {MemberId(role, index): Address(host, {"main": 7}) for role, index, host in hosts}
    written = peer_runs(addresses)
    assert [(one["member"], one["host"], one["first"], one["count"]) for one in written] == runs
    document = {"version": 1, "member": "w-0", "argv": ["x"], "cwd": "/", "log_path": "l"}
    read = Contract({**document, "sample_path": "s", "peers": written}).peers
    assert [(peer.member, peer.host, peer.ports) for peer in read] == [
        (f"{role}-{index}", host, [7]) for role, index, host in hosts
    ]


@pytest.mark.parametrize(
    ("python", "command", "expected"),
    [
        ("/opt/venv", ["python", "t.py"], ["/opt/venv/bin/python", "t.py"]),
        ("/opt/venv/", ["python3", "t.py"], ["/opt/venv/bin/python", "t.py"]),
        ("/usr/bin/python3.12", ["python", "t.py"], ["/usr/bin/python3.12", "t.py"]),
        ("/opt/venv", ["./train"], ["./train"]),
        (None, ["python", "t.py"], ["python", "t.py"]),
    ],
)
def test_python_is_a_path_inside_the_image(
    python: str | None, command: list[str], expected: list[str]
) -> None:
    (pod,) = pods_of({"roles": {"worker": {}}, "command": command, "python": python})
    assert json.loads(env_of(pod)["MOORING_CONTRACT"])["argv"] == expected


def test_a_python_of_ones_own_machine_is_refused_for_pods() -> None:
    with pytest.raises(BadInput, match=r"spec\.python: .*absolute path inside the image"):
        pods_of({"roles": {"worker": {}}, "python": ".venv"})
