"""What `moor install` prints applies, twice too; the server checks, keeps, fills in and shows."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from kube.cluster.client import ApiError
from kube.cluster.control_plane import ControlPlane
from kube.install.objects import GROUP, JOBS, every_field, moor_install, small, stored
from support.waiting import until


def test_applying_again_changes_nothing(plane: ControlPlane) -> None:
    for form in ("yaml", "json"):
        again = plane.kubectl("apply", "-f", "-", stdin=moor_install("-o", form))
        assert again.returncode == 0, again.stderr
        assert not again.stderr
        lines = again.stdout.splitlines()
        assert len(lines) > 15
        assert [line for line in lines if not line.endswith(" unchanged")] == []


def test_the_server_finds_the_schemas_structural(plane: ControlPlane) -> None:
    for plural in ("trainingjobs", "pools"):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.mooring.dev"
        conditions = plane.admin.get(path)["status"]["conditions"]
        assert {one["type"]: one["status"] for one in conditions} == {
            "NamesAccepted": "True",
            "Established": "True",
        }


def test_the_server_is_asked_for_its_version(plane: ControlPlane) -> None:
    told = moor_install("--kubeconfig", str(plane.kubeconfig))
    major, minor = plane.programs.version
    assert told == moor_install("--kube-version", f"{major}.{minor}")


def test_rules_in_cel_are_taken_or_dropped_as_the_servers_version_says(plane: ControlPlane) -> None:
    definition = next(iter(yaml.safe_load_all(moor_install("--kube-version", "1.29"))))
    definition["metadata"]["name"] = "trainingjobs.cel.mooring.dev"
    definition["spec"]["group"] = "cel.mooring.dev"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    # Not kept: kubectl would find two kinds of that name.
    kept = str(plane.admin.create(path, definition, dryRun="All")["spec"])
    assert ("x-kubernetes-validations" in kept) == (plane.programs.version >= (1, 25))


def test_defaults_are_filled_in_by_the_server(plane: ControlPlane) -> None:
    with stored(plane, small()) as made:
        assert made["spec"]["roles"]["worker"]["processes"] == 1
        assert made["spec"]["startTimeout"] == "5m"
        assert made["spec"]["threads"] == "auto"


def test_resources_beside_cpu_and_pieces_of_pods_are_kept(plane: ControlPlane) -> None:
    job = every_field()
    job["spec"]["roles"]["worker"]["resources"]["example.com/fpga"] = 2
    volume = {"name": "data", "csi": {"driver": "d.example", "volumeAttributes": {"a": "b"}}}
    job["spec"]["kubernetes"] = {"volumes": [volume]}
    with stored(plane, job) as made:
        assert made["spec"]["roles"]["worker"]["resources"]["example.com/fpga"] == 2
        assert made["spec"]["kubernetes"]["volumes"] == [volume]


def test_the_status_is_a_subresource_and_kubectl_shows_it_in_columns(plane: ControlPlane) -> None:
    job = small()
    status = {
        "phase": "Running",
        "reason": "AllReady",
        "message": "all members run",
        "stage": "Admitted",
        "ready": "3/4",
        "pool": "ads",
        "epoch": 2,
        "restarts": 1,
        "placement": {"worker": ["n1", "n2"]},
        "record": {"members": {"worker-0": {"state": "failed", "attempt": 2}}},
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "reason": "AllReady",
                "message": "all members run",
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            }
        ],
        "queuedAt": "2030-01-01T00:00:00Z",
        "examplesPerSecond": 1234.5,
        "steps": 40,
        "observedGeneration": 1,
    }
    with stored(plane, job) as made:
        path = f"{JOBS}/demo"
        plane.admin.patch(path, {"status": {"phase": "Succeeded"}})
        assert "status" not in plane.admin.get(path)
        after = plane.admin.patch(f"{path}/status", {"status": status})
        assert after["status"] == status
        assert after["metadata"]["generation"] == made["metadata"]["generation"]
        head, row = columns(plane, "get", "tj")
        assert head == ["NAME", "PHASE", "READY", "POOL", "AGE", "EXAMPLES/S"]
        assert [*row[:4], row[5]] == ["demo", "Running", "3/4", "ads", "1234.5"]
        head, row = columns(plane, "get", "trainingjobs", "-o", "wide")
        assert (head[-1], row[-1]) == ("REASON", "AllReady")


def columns(plane: ControlPlane, *arguments: str) -> tuple[list[str], list[str]]:
    # kubectl keeps what kinds there are for a while, and asks anew after it has missed one.
    until(lambda: plane.kubectl(*arguments).returncode == 0, f"kubectl {' '.join(arguments)}")
    answer = plane.kubectl(*arguments)
    head, row = answer.stdout.splitlines()
    return head.split(), row.split()


def test_explain_knows_the_fields(plane: ControlPlane) -> None:
    until(
        lambda: plane.kubectl("explain", "tj.spec.roles.replicas").returncode == 0,
        "the schema is published",
    )
    assert "How many members" in plane.kubectl("explain", "tj.spec.roles.replicas").stdout


def test_pools(plane: ControlPlane) -> None:
    pool = {
        "apiVersion": "mooring.dev/v1",
        "kind": "Pool",
        "metadata": {"name": "ads"},
        "spec": {"guaranteed": {"gpu": 8, "cpu": "64"}, "cap": {"gpu": 16}, "weight": 2},
    }
    made = plane.admin.create(f"{GROUP}/pools", pool)
    try:
        assert made["spec"] == pool["spec"]
        head, row = columns(plane, "get", "mpool")
        assert (head, row[:2]) == (["NAME", "WEIGHT", "AGE"], ["ads", "2"])
    finally:
        plane.admin.delete(f"{GROUP}/pools/ads")
    for path, value in [
        (("spec", "weight"), 0),
        (("spec", "weight"), "2"),
        (("spec", "guaranteed", "gpu"), "many"),
        (("metadata", "name"), "a" * 64),
        (("spec",), None),
    ]:
        bad = copy.deepcopy(pool)
        here: dict[str, Any] = bad
        for part in path[:-1]:
            here = here[part]
        here[path[-1]] = value
        with pytest.raises(ApiError) as refused:
            plane.admin.create(f"{GROUP}/pools", bad)
        assert refused.value.status == 422
