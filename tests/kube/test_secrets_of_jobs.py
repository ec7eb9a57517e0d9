"""What stands in a job's environment and arguments is told to nobody who may not read the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.cluster.puppets import puppets
from kube.operator import Jobs, training_job
from kube.operator import operator as run_operator
from support.moor import Moor
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

CANARIES = {name: f"canary-{name}-4f1d9c" for name in ("env", "argument", "secret", "annotation")}


def canary_job(name: str, **kubernetes: Any) -> dict[str, Any]:
    made = training_job(
        name,
        env={"PASSWORD": CANARIES["env"]},
        kubernetes={
            "secretEnv": {"TOKEN": {"secret": "s", "key": "k"}},
            "annotations": {"note": CANARIES["annotation"]},
            **kubernetes,
        },
        failurePolicy={"restart": "gang", "maxRestarts": 1, "backoff": {"initial": "0s"}},
        gracePeriod="1s",
    )
    made["spec"]["roles"]["worker"]["command"] = ["train", f"--key={CANARIES['argument']}"]
    return made


def test_secrets_are_in_no_log_event_status_metric_or_report(
    control_plane: ControlPlane, namespace: str, jobs: Jobs, tmp_path: Path
) -> None:
    admin = control_plane.admin
    secret = {"metadata": {"name": "s"}, "stringData": {"k": CANARIES["secret"]}}
    admin.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    refused = canary_job("refused")
    refused["spec"]["env"]["BROKEN"] = CANARIES["env"] + "\0"
    waiting = canary_job("waiting")
    waiting["spec"]["placement"] = {"nodeSelector": {"no": "where"}}
    with (
        fake_nodes(admin, 2, NodeShape(cpus=16), "canary"),
        puppets(admin) as strings,
        run_operator(control_plane, namespace) as operator,
    ):
        for one in (canary_job("quiet"), refused, waiting):
            jobs.create(one)
        # It fails, starts anew and fails for good: each of that is told.
        for epoch in (0, 1):
            until(lambda epoch=epoch: running_in(jobs, epoch), f"it runs in epoch {epoch}", 90)  # type: ignore[misc]
            strings.finish(namespace, "quiet-worker-1", exit_code=1)
        jobs.wait_phase("quiet", "Failed", deadline_s=90)
        jobs.wait_phase("refused", "Failed", deadline_s=90)
        until(lambda: jobs.status("waiting").get("message"), "why it waits is told", 90)
        moor, where = Moor(tmp_path), ("--kubeconfig", control_plane.kubeconfig)
        where += ("--namespace", namespace)
        events = admin.items(f"/api/v1/namespaces/{namespace}/events")
        told = {
            "log": operator.log,
            "metrics": operator.page("/metrics"),
            "events": json.dumps(events),
            "status": json.dumps([jobs.status(name) for name in ("quiet", "refused", "waiting")]),
            "ps": moor("ps", *where).stdout,
            **{
                f"{command} {name} {form}": said(moor, command, name, *form.split(), *where)
                for command, form in (("report", ""), ("report", "-o json"), ("explain", ""))
                for name in ("quiet", "waiting")
            },
            "report refused": said(moor, "report", "refused", *where),
        }
        assert operator.defects == []
    assert all(told.values())
    assert "quiet" in told["log"] and "worker-1" in told["report quiet "]
    shown = [(where, name) for where, text in told.items() for name in found_in(text)]
    assert shown == []
    # The canaries are where they belong, so that this test could see them.
    assert set(found_in(json.dumps(jobs.get("quiet")))) == {"env", "argument", "annotation"}


def running_in(jobs: Jobs, epoch: int) -> bool:
    status = jobs.status("quiet")
    return status.get("phase") == "Running" and status.get("epoch") == epoch


def said(moor: Moor, *arguments: Any) -> str:
    done = moor(*arguments)
    return done.stdout + done.stderr


def found_in(text: str) -> list[str]:
    return [name for name, canary in CANARIES.items() if canary in text]
