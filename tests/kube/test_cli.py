"""The user's commands against a real API server, with the operator as a process of its own."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.cluster.puppets import Puppets, puppets
from kube.operator import Flags, Jobs, OperatorProcess, training_job
from kube.operator import operator as run_operator
from support.moor import Moor
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]


@pytest.fixture(scope="module")
def strings(control_plane: ControlPlane) -> Iterator[Puppets]:
    """Three nodes of four CPUs each."""
    admin = control_plane.admin
    with fake_nodes(admin, 3, NodeShape(cpus=4)), puppets(admin) as made:
        yield made


class Command:
    """`moor COMMAND` about one namespace of the control plane."""

    def __init__(self, plane: ControlPlane, namespace: str, home: Path) -> None:
        self.folder, self.moor = home, Moor(home / "state")
        self.where = ["--kubeconfig", str(plane.kubeconfig), "--namespace", namespace]

    def __call__(self, *arguments: str | Path, code: int = 0) -> str:
        answer = self.moor(*arguments, *self.where)
        assert answer.returncode == code, (answer.stdout, answer.stderr)
        self.stderr = answer.stderr
        return answer.stdout

    def file(self, job: Json) -> Path:
        path = self.folder / f"{job['metadata']['name']}.yaml"
        path.write_text(yaml.safe_dump(job))
        return path


@pytest.fixture
def moor(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Command:
    return Command(control_plane, namespace, tmp_path)


def finish(strings: Puppets, jobs: Jobs, name: str, namespace: str, code: int = 0) -> None:
    for pod in jobs.pods(name):
        strings.finish(namespace, pod["metadata"]["name"], code)


def test_several_jobs_are_sent_and_waited_for(
    moor: Command, operator: OperatorProcess, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    good, bad = moor.file(training_job("good")), moor.file(training_job("bad"))
    with moor.moor.started("submit", good, bad, "--wait", *moor.where) as waiting:
        until(lambda: len(json.loads(moor("ps", "-a", "-o", "json"))) == 2, "both are there", 60)
        for name in ("good", "bad"):
            jobs.wait_phase(name, "Running")
        finish(strings, jobs, "good", namespace)
        # One failure ends the gang: the other pod may be gone before it could be told to end.
        strings.finish(namespace, jobs.pods("bad")[0]["metadata"]["name"], 3)
        told, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 1
    assert f"{namespace}/good: Running 2/2" in told
    assert f"{namespace}/good: Succeeded" in told
    assert f"{namespace}/bad: Failed" in told
    assert operator.defects == []


def test_nothing_is_sent_if_one_of_the_files_is_wrong(
    moor: Command, operator: OperatorProcess, namespace: str, control_plane: ControlPlane
) -> None:
    wrong = training_job("wrong")
    del wrong["spec"]["image"]
    moor("submit", moor.file(training_job("right")), moor.file(wrong), code=2)
    assert "spec.image" in moor.stderr
    path = f"/apis/mooring.dev/v1/namespaces/{namespace}/trainingjobs"
    assert control_plane.admin.items(path) == []


def test_ctrl_c_leaves_the_job_alone_and_says_so(
    moor: Command, operator: OperatorProcess, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    job = moor.file(training_job("pair"))
    with moor.moor.started("submit", job, "--wait", *moor.where) as waiting:
        assert waiting.stdout is not None
        seen = iter(waiting.stdout.readline, "")
        next(line for line in seen if line.startswith("Running 2/2"))
        waiting.send_signal(signal.SIGINT)
        told, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert f"{namespace}/pair goes on" in told
    assert f"moor stop pair -n {namespace}" in told
    assert jobs.phase("pair") == "Running"


def test_ps_lists_what_runs_and_what_waits_with_the_reason(
    moor: Command, operator: OperatorProcess, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    jobs.create(training_job("pair"))
    jobs.wait_phase("pair", "Running")
    jobs.create(training_job("huge", cpu=5))
    until(lambda: jobs.status("huge").get("message"), "huge has its answer")
    rows = {row["job"]: row for row in json.loads(moor("ps", "-o", "json"))}
    assert rows["pair"]["phase"] == "Running"
    assert rows["pair"]["ready"] == "2/2"
    assert rows["pair"]["pool"] == "default"
    assert rows["huge"]["phase"] == "Queued"
    assert rows["huge"]["message"] == jobs.status("huge")["message"]
    table = moor("ps")
    assert table.splitlines()[0].split() == [
        *("job", "phase", "ready", "pool", "age", "examples/s", "why")
    ]
    assert {"pair", "huge"} <= {line.split()[0] for line in table.splitlines()[1:]}
    finish(strings, jobs, "pair", namespace)
    jobs.wait_phase("pair", "Succeeded")
    assert "pair" not in moor("ps")
    assert "Succeeded" in moor("ps", "-a")


def test_stop_ends_a_job_and_delete_leaves_nothing(
    moor: Command,
    operator: OperatorProcess,
    namespace: str,
    jobs: Jobs,
    strings: Puppets,
    control_plane: ControlPlane,
) -> None:
    jobs.create(training_job("pair"))
    jobs.wait_phase("pair", "Running")
    assert moor("stop", "pair") == f"stopped {namespace}/pair\n"
    assert jobs.phase("pair") == "Stopped"
    assert moor("stop", "pair") == f"{namespace}/pair has ended already: Stopped\n"
    jobs.create(training_job("second"))
    jobs.wait_phase("second", "Running")
    assert moor("stop", "second", "--delete") == f"deleted {namespace}/second\n"
    assert jobs.pods("second") == []
    until(
        lambda: (
            not control_plane.admin.items(
                f"/api/v1/namespaces/{namespace}/services", labelSelector="mooring.dev/job=second"
            )
        ),
        "its service is gone",
    )
    moor("stop", "second", code=2)
    assert f"namespace {namespace}: JOB: found 'second'" in moor.stderr
    assert "pair" in moor.stderr


def test_render_prints_what_the_operator_then_makes(
    moor: Command,
    operator: OperatorProcess,
    namespace: str,
    jobs: Jobs,
    strings: Puppets,
    control_plane: ControlPlane,
) -> None:
    (moor.folder / "train.py").write_text("print('hello')\n")
    roles = {"launcher": 1, "worker": 2}
    job = training_job("ring", roles, framework="mpi", files=["train.py"])
    del job["spec"]["roles"]["worker"]["command"]
    path = moor.file(job)
    rendered = list(yaml.safe_load_all(moor("render", path)))
    assert moor.stderr == ""
    kinds = [one["kind"] for one in rendered]
    beside = ["TrainingJob", "ConfigMap", "Service", "Secret", "NetworkPolicy"]
    assert kinds == [*beside, "Pod", "Pod", "Pod"]
    moor("submit", path)
    jobs.wait_phase("ring", "Running")
    stored = jobs.get("ring")
    uid = stored["metadata"]["uid"]
    assert contained(rendered[0]["spec"], stored["spec"]) == []
    made = {pod["metadata"]["name"]: pod for pod in jobs.pods("ring")}
    for pod in rendered[len(beside) :]:
        there = made.pop(pod["metadata"]["name"])
        text = json.dumps(pod).replace("0" * 8 + "-0000-0000-0000-" + "0" * 12, uid)
        # The Secret of its token is named after the job and the beginning of its uid.
        meant = json.loads(text.replace("ring-" + "0" * 8, f"ring-{uid[:8]}"))
        assert contained(meant["spec"], there["spec"]) == []
        assert meant["metadata"]["labels"] == there["metadata"]["labels"]
        assert there["spec"]["nodeName"] == node_of(pod)
    assert made == {}
    core = f"/api/v1/namespaces/{namespace}"
    data = control_plane.admin.get(f"{core}/configmaps/ring-files")["binaryData"]
    assert data == rendered[1]["binaryData"]
    service = control_plane.admin.get(f"{core}/services/ring")["spec"]
    assert contained(rendered[2]["spec"], service, skip=("selector",)) == []


def node_of(pod: Json) -> str:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    [name] = term["matchFields"][0]["values"]
    return str(name)


def contained(meant: Any, there: Any, at: str = "", skip: tuple[str, ...] = ()) -> list[str]:
    """Where `there`, which a server may have added to, differs from what was meant."""
    if isinstance(meant, dict) and isinstance(there, dict):
        found = []
        for key, value in meant.items():
            if key not in skip:
                found += contained(value, there.get(key), f"{at}.{key}")
        return found
    if isinstance(meant, list) and isinstance(there, list) and len(meant) <= len(there):
        pairs = zip(meant, there, strict=False)
        return [say for n, (a, b) in enumerate(pairs) for say in contained(a, b, f"{at}[{n}]")]
    # A server stores an empty list as none.
    return (
        []
        if meant == there or (meant == [] and there is None)
        else [f"{at}: {meant!r} is {there!r}"]
    )


def test_render_without_room_says_who_it_waits_for_and_prints_the_rest(
    moor: Command, operator: OperatorProcess, strings: Puppets
) -> None:
    rendered = list(yaml.safe_load_all(moor("render", moor.file(training_job("huge", cpu=5)))))
    kinds = [one["kind"] for one in rendered]
    assert kinds == ["TrainingJob", "Service", "Secret", "NetworkPolicy"]
    assert moor.stderr.startswith("no pods: ")
    assert "cpu" in moor.stderr  # how it is said depends on whether pods of other tests still end


def test_explain_says_of_a_submitted_job_what_the_operator_says(
    moor: Command, operator: OperatorProcess, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    jobs.create(training_job("pair"))
    jobs.wait_phase("pair", "Running")
    jobs.create(training_job("huge", cpu=5))
    until(lambda: jobs.status("huge").get("message"), "huge has its answer")
    found = json.loads(moor("explain", "huge", "-o", "json"))
    assert found["refused"] == jobs.status("huge")["message"]
    assert {one["node"] for one in found["nodes"]} >= {"fake-000", "fake-001", "fake-002"}
    assert all(one["refused"] for one in found["nodes"])
    assert any("cpu" in change for change in found["changes"])
    [second] = [pod for pod in jobs.pods("pair") if pod["metadata"]["name"].endswith("worker-1")]
    found = json.loads(moor("explain", "pair", "worker-1", "-o", "json"))
    assert found["node"] == second["spec"]["nodeName"]
    arriving = json.loads(moor("explain", moor.file(training_job("third")), "-o", "json"))
    assert arriving["node"] is not None


def test_report_without_launchers_shows_nodes_and_says_what_is_missing(
    moor: Command, operator: OperatorProcess, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    jobs.create(training_job("pair"))
    jobs.wait_phase("pair", "Running")
    found = json.loads(moor("report", "pair", "-o", "json"))
    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in jobs.pods("pair")}
    assert {f"pair-{one['member']}": one["node"] for one in found["members"]} == nodes
    assert [one["state"] for one in found["members"]] == ["running", "running"]
    assert found["notes"][0].startswith("no figures of its members")
    assert "shared: pinning was not asked for" in moor("report", "pair")


def test_logs_of_members_that_are_gone_or_have_not_started_say_so(
    moor: Command, operator: OperatorProcess, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    strings.hold(namespace, "pair-worker-0")
    jobs.create(training_job("pair"))
    jobs.create(training_job("huge", cpu=5))
    until(lambda: len(jobs.pods("pair")) == 2, "its pods are there")
    assert moor("logs", "pair", "worker-0") == ""
    assert "worker-0: has not started yet" in moor.stderr
    assert moor("logs", "huge") == ""
    assert "worker-1: its pod is not there" in moor.stderr
    moor("logs", "pair", "judge", code=2)
    assert "one of worker-0, worker-1" in moor.stderr


def test_without_an_installation_the_commands_say_how_to_make_one(
    moor: Command, control_plane: ControlPlane
) -> None:
    nobody = control_plane.kubeconfig_for_user("nobody")
    answer = moor.moor("ps", "--kubeconfig", nobody)
    assert answer.returncode == 1
    assert "forbidden" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_operator_without_election_and_account_rights_serves_the_commands_too(
    moor: Command, control_plane: ControlPlane, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    with run_operator(control_plane, namespace, Flags(as_account=True)) as operator:
        moor("submit", moor.file(training_job("pair")))
        jobs.wait_phase("pair", "Running")
        moor("stop", "pair")
        assert operator.defects == []
