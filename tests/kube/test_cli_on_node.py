"""logs and report of members that really run: restarts, CPUs of their own, steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kube.cluster.control_plane import ControlPlane
from kube.cluster.real_node import RealNode
from kube.operator import Jobs, OperatorProcess, training_job
from support.moor import Moor
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.root]

#: Dies in its first life; in its second it tells of a step and waits to be stopped.
FRAIL = """
import os, pathlib, sys, time
mark = pathlib.Path("/mooring/lived")
if not mark.exists():
    mark.touch()
    print("first life", flush=True)
    sys.exit(1)
print("second life", flush=True)
for step in range(1, 1000):
    print('::mooring:: {"step": %d, "examples": 10}' % step, flush=True)
    time.sleep(0.5)
"""
STEADY = "import time; print('steady', flush=True); time.sleep(600)"


def test_logs_and_report_of_a_job_whose_member_restarts(
    control_plane: ControlPlane,
    real_node: RealNode,
    operator: OperatorProcess,
    namespace: str,
    jobs: Jobs,
    tmp_path: Path,
) -> None:
    moor = Moor(tmp_path)
    where = ["--kubeconfig", control_plane.kubeconfig, "--namespace", namespace]
    frail = training_job("frail", {"worker": 1}, pinning="exclusive")
    frail["spec"]["roles"]["worker"] |= {
        "command": [sys.executable, "-c", FRAIL],
        "restart": "member",
        "kubernetes": {"python": sys.executable},
    }
    calm = training_job("calm", {"ps": 1, "worker": 1}, cpu="50m", threads=80)
    for role in calm["spec"]["roles"].values():
        role |= {"command": [sys.executable, "-c", STEADY]}
        role |= {"kubernetes": {"python": sys.executable}}
    jobs.create(frail)
    jobs.create(calm)

    def both_lives() -> str:
        said = moor("logs", "frail", *where).stdout
        return said if "second life" in said else ""

    said = until(both_lives, "the worker lives again", 120)
    assert said.splitlines() == ["worker-0 | first life", "worker-0 | second life"]
    assert moor("logs", "frail", "--tail", "1", *where).stdout == "worker-0 | second life\n"
    jobs.wait_phase("calm", "Running", deadline_s=120)
    both = ["ps-0     | steady", "worker-0 | steady"]
    until(lambda: sorted(moor("logs", "calm", *where).stdout.splitlines()) == both, "both talk", 60)

    own = real_node.cpuset(namespace, "frail-worker-0", "member")

    def pinning(name: str) -> dict[str, str]:
        found: dict[str, str] = jobs.status(name).get("pinning") or {}
        return found

    until(lambda: pinning("frail") == {"worker-0": f"exclusive {own}"}, "it has its CPU", 60)
    until(lambda: jobs.status("frail").get("examplesPerSecond"), "it is known how fast it is", 60)
    until(lambda: len(pinning("calm")) == 2, "it is known what the others hold", 60)
    assert all(held.startswith("shared ") for held in pinning("calm").values())
    [worker] = json.loads(moor("report", "frail", "-o", "json", *where).stdout)["members"]
    assert (worker["node"], worker["cpus"], worker["exclusive"]) == ("real", own, True)
    assert (worker["pinning"], worker["starts"]) == ("exclusive", 2)
    assert worker["step"] >= 1
    for member in json.loads(moor("report", "calm", "-o", "json", *where).stdout)["members"]:
        assert (member["exclusive"], member["pinning"]) == (
            False,
            "shared: pinning was not asked for",
        )

    def findings(name: str) -> dict[str, str]:
        found = json.loads(moor("doctor", name, "--json", *where).stdout)
        unknown = [one["unknown"] for one in found["checked"] if one["id"] == "cpu-threads"]
        return {"unknown": unknown[0], **{one["id"]: one["says"] for one in found["findings"]}}

    def account() -> dict[str, Any]:
        told = json.loads(moor("doctor", "frail", "--json", *where).stdout)["account"]
        return next(iter(told["ranks"]), {})

    # Launchers look in pods too: half a second of sleep in each step.
    rank = until(account, "there are enough looks", 60)
    assert rank["parts"]["sleeping"] > 0.8
    assert rank["adds_up"]
    assert rank["functions"][0]["line"] == 11
    told = moor("doctor", "frail", *where).stdout
    assert told.startswith("Where a step's time goes")
    # The first member's launcher keeps the last minutes of both: 80 threads on the node's two CPUs.
    found = until(lambda: findings("calm").get("cpu-threads"), "there are enough samples", 120)
    assert "80 threads on" in found
    until(lambda: not findings("frail")["unknown"], "there are enough samples of the other", 60)
    assert "cpu-threads" not in findings("frail")
    with moor.started("logs", "frail", "--follow", *where) as following:
        assert following.stdout is not None
        seen = iter(following.stdout.readline, "")
        next(line for line in seen if "second life" in line)
        assert moor("stop", "frail", *where).returncode == 0
        following.communicate(timeout=60)
    assert following.returncode == 0
    assert operator.defects == []
