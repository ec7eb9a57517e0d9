"""`moor plan --map`: the drawing below the table, the file, and the slips."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from support.moor import Moor, write_job

NODE = {"name": "big", "cpus": 16, "sockets": 2, "smt": 2, "memory": "64Gi", "gpus": {"perCell": 2}}


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    data = {"apiVersion": "mooring.dev/v1", "kind": "Cluster", "nodes": [NODE]}
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    worker = {"replicas": 2, "resources": {"cpu": 4, "gpu": 1}}
    return write_job(
        tmp_path,
        name="drawn",
        framework="indexed",
        command=["true"],
        pinning="exclusive",
        roles={"worker": worker},
    )


def test_the_terminal_shows_who_holds_what(moor: Moor, job: Path, cluster: Path) -> None:
    answer = moor("plan", job, "--cluster", cluster, "--map")
    assert answer.returncode == 0, answer.stderr
    assert "big: 16 CPUs, 4 GPUs, 64Gi" in answer.stdout
    # Two workers of two whole cores each, whatever the cells.
    assert answer.stdout.count("AA") == answer.stdout.count("BB") == 2
    assert "A worker-0: CPUs" in answer.stdout


def test_a_file_gets_the_picture(moor: Moor, job: Path, cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    answer = moor("plan", job, "--cluster", cluster, "--map", path, "-o", "json")
    assert answer.returncode == 0, answer.stderr
    assert len(json.loads(answer.stdout)["members"]) == 2
    ElementTree.fromstring(path.read_text())
    assert "worker-1: CPUs" in path.read_text()


def test_slips_are_named(moor: Moor, job: Path, cluster: Path, tmp_path: Path) -> None:
    for words, said in (
        (("--map", "-o", "json", job), "no file, with -o json; accepted: a FILE.svg"),
        ((job, "--map", tmp_path / "map.png"), "map.png'; accepted: a FILE.svg"),
        ((job, "--map", tmp_path / "none" / "map.svg"), "No such file or directory"),
    ):
        answer = moor("plan", "--cluster", cluster, *words)
        assert answer.returncode == 2
        assert said in answer.stderr
