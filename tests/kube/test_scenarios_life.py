"""The life of jobs on a cluster: how they succeed, fail, restart, pause, grow and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube.cluster.fake_nodes import NodeShape
from kube.operator import training_job
from kube.scenarios import Stage
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

SMALL = {"cpu": "500m", "memory": "64Mi"}
#: Restarts come at once.
AT_ONCE = {"initial": 0, "max": 0}


@pytest.fixture(scope="module", autouse=True)
def nodes(stage: Stage) -> Iterator[None]:
    with stage.nodes(3, NodeShape(cpus=4)):
        yield


@pytest.fixture(autouse=True)
def nothing_left(stage: Stage) -> Iterator[None]:
    yield
    stage.clear()


def failing(restart: str, **policy: Any) -> dict[str, Any]:
    return {"restart": restart, "backoff": AT_ONCE, **policy}


def role(replicas: int, **more: Any) -> dict[str, Any]:
    return {"replicas": replicas, "command": ["train"], "resources": SMALL, **more}


FRAMEWORKS = {
    "tensorflow": (
        {"chief": role(1), "ps": role(2), "worker": role(2)},
        ["chief-0"],
        {"chief-0": "TF_CONFIG", "ps-1": "TF_CONFIG", "worker-0": "TF_CONFIG"},
    ),
    "pytorch": (
        {"worker": role(3)},
        ["worker-0", "worker-1", "worker-2"],
        {"worker-0": "MASTER_ADDR", "worker-2": "WORLD_SIZE"},
    ),
    "mpi": (
        {"launcher": role(1), "worker": {"replicas": 2, "resources": SMALL}},
        ["launcher-0"],
        {"launcher-0": "MOORING_RANK_TOKEN", "worker-1": "MOORING_RANK_TOKEN"},
    ),
    "indexed": (
        {"worker": role(2)},
        ["worker-0", "worker-1"],
        {"worker-1": "MOORING_CONTRACT"},
    ),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_job_of_each_framework_succeeds(stage: Stage, framework: str) -> None:
    roles, deciding, variables = FRAMEWORKS[framework]
    job = training_job(framework)
    job["spec"] |= {"framework": framework, "roles": roles}
    stage.run(job)
    pods = {pod["metadata"]["name"]: pod for pod in stage.jobs.pods(framework)}
    assert len(pods) == sum(one["replicas"] for one in roles.values())
    for member, variable in variables.items():
        [container] = pods[f"{framework}-{member}"]["spec"]["containers"]
        assert variable in {one["name"] for one in container["env"]}
    stage.finish(framework, *deciding)
    stage.jobs.wait_phase(framework, "Succeeded")
    # Members that would run for ever (servers, agents) are gone, those that ended are kept.
    until(lambda: set(stage.members(framework)) == set(deciding), "only what ended is kept")


def test_a_member_that_fails_and_is_not_restarted_fails_the_job(stage: Stage) -> None:
    stage.run(training_job("fails", failurePolicy=failing("never")))
    stage.finish("fails", "worker-1", exit_code=3)
    status = stage.jobs.wait_phase("fails", "Failed")["status"]
    assert status["message"] == "worker-1 exited with code 3"
    until(lambda: set(stage.members("fails")) == {"worker-1"}, "the other one is gone")


def test_a_gang_starts_again_whole_and_with_a_new_epoch(stage: Stage) -> None:
    stage.run(training_job("gang", failurePolicy=failing("gang", maxRestarts=1)))
    before = {pod["metadata"]["uid"] for pod in stage.jobs.pods("gang")}
    stage.finish("gang", "worker-0", exit_code=1)
    status = stage.status_when(
        "gang", lambda now: now["phase"] == "Running" and now["epoch"] == 1, "runs again"
    )
    assert status["restarts"] == 1
    pods = stage.jobs.pods("gang")
    assert not before & {pod["metadata"]["uid"] for pod in pods}
    assert {pod["metadata"]["labels"]["mooring.dev/epoch"] for pod in pods} == {"1"}
    stage.finish("gang", "worker-0", exit_code=1)
    status = stage.jobs.wait_phase("gang", "Failed")["status"]
    assert "after 1 restart" in status["message"]


def test_a_server_restarts_in_place_and_nobody_else_notices(stage: Stage) -> None:
    job = training_job("inplace", failurePolicy={"backoff": AT_ONCE})
    job["spec"] |= {
        "framework": "tensorflow",
        "roles": {"chief": role(1), "ps": role(1, restart="member"), "worker": role(1)},
    }
    stage.run(job)
    before = {pod["metadata"]["uid"] for pod in stage.jobs.pods("inplace")}
    stage.strings.restart(stage.namespace, "inplace-ps-0")
    stage.status_when(
        "inplace",
        lambda now: (
            now["phase"] == "Running"
            and now["record"].get("members", {}).get("ps-0", {}).get("attempt") == 1
        ),
        "its second attempt runs",
    )
    assert {pod["metadata"]["uid"] for pod in stage.jobs.pods("inplace")} == before
    assert stage.jobs.status("inplace")["epoch"] == 0
    stage.finish("inplace", "chief-0")
    stage.jobs.wait_phase("inplace", "Succeeded")


def test_a_member_whose_pod_is_deleted_gets_a_new_one(stage: Stage) -> None:
    stage.run(training_job("again", failurePolicy=failing("member")))
    [first, other] = stage.jobs.pods("again")
    stage.admin.delete(f"/api/v1/namespaces/{stage.namespace}/pods/again-worker-0", grace_s=0)

    def replaced() -> bool:
        uids = [pod["metadata"]["uid"] for pod in stage.jobs.pods("again")]
        return len(uids) == 2 and first["metadata"]["uid"] not in uids

    until(replaced, "worker-0 has another pod", 30)
    stage.status_when(
        "again", lambda now: now["phase"] == "Running" and now["ready"] == "2/2", "both run"
    )
    [new, same] = stage.jobs.pods("again")
    assert same["metadata"]["uid"] == other["metadata"]["uid"]
    assert new["metadata"]["labels"]["mooring.dev/attempt"] == "1"


def test_a_suspended_job_gives_its_place_back_and_gets_one_again(stage: Stage) -> None:
    stage.run(training_job("pause"))
    stage.change("pause", {"kubernetes": {"suspend": True}})
    stage.jobs.wait_phase("pause", "Suspended")
    assert stage.jobs.pods("pause") == []
    stage.change("pause", {"kubernetes": {"suspend": False}})
    status = stage.jobs.wait_phase("pause", "Running")["status"]
    assert status["epoch"] == 1


def test_a_job_that_is_suspended_from_the_start_waits(stage: Stage) -> None:
    stage.submit(training_job("late", kubernetes={"suspend": True}))
    stage.jobs.wait_phase("late", "Suspended")
    stage.change("late", {"kubernetes": {"suspend": False}})
    stage.jobs.wait_phase("late", "Running")


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_a_role_that_is_scaled_starts_anew_with_the_new_size(
    stage: Stage, before: int, after: int
) -> None:
    stage.run(training_job("scale", {"worker": before}, minAvailable=1))
    stage.change("scale", {"roles": {"worker": {"replicas": after}}})
    stage.status_when(
        "scale",
        lambda now: now["phase"] == "Running" and now["ready"] == f"{after}/{after}",
        f"{after} members run",
    )
    assert set(stage.members("scale")) == {f"worker-{index}" for index in range(after)}
    assert stage.jobs.status("scale")["epoch"] >= 1
    stage.finish("scale")
    stage.jobs.wait_phase("scale", "Succeeded")


def test_a_gang_that_is_not_elastic_starts_anew_when_its_size_changes(stage: Stage) -> None:
    stage.run(training_job("resize"))
    stage.change("resize", {"roles": {"worker": {"replicas": 3}}})
    stage.status_when("resize", lambda now: now["ready"] == "3/3", "three run")


def test_stopping(stage: Stage) -> None:
    stage.run(training_job("stop"))
    stage.note("stop", "mooring.dev/stop", "true")
    stage.jobs.wait_phase("stop", "Stopped")
    until(lambda: stage.jobs.pods("stop") == [], "no pod is left")


def test_stopping_a_job_that_waits(stage: Stage) -> None:
    stage.submit(training_job("never", cpu=100))
    stage.jobs.wait_phase("never", "Queued")
    stage.note("never", "mooring.dev/stop", "true")
    stage.jobs.wait_phase("never", "Stopped")


def test_a_job_over_its_time_limit_fails(stage: Stage) -> None:
    stage.submit(training_job("long", timeLimit="3s"))
    status = stage.jobs.wait_phase("long", "Failed")["status"]
    assert status["message"] == "over its time limit of 3s"


def test_a_finished_job_goes_after_its_time_with_all_that_was_its(stage: Stage) -> None:
    stage.run(training_job("ttl", kubernetes={"ttlAfterFinished": "1s"}))
    stage.finish("ttl")
    path = f"/apis/mooring.dev/v1/namespaces/{stage.namespace}/trainingjobs"
    until(lambda: stage.admin.items(path) == [], "the job is gone", 30)
    until(lambda: not stage.left_of("ttl"), "nothing is left", 30)


def test_all_pods_are_cleaned_if_the_job_says_so(stage: Stage) -> None:
    stage.run(training_job("clean", kubernetes={"cleanPods": "all"}))
    stage.finish("clean")
    stage.jobs.wait_phase("clean", "Succeeded")
    until(lambda: stage.jobs.pods("clean") == [], "no pod is left")


def queued(stage: Stage) -> None:
    stage.submit(training_job("gone", cpu=100))
    stage.jobs.wait_phase("gone", "Queued")


def starting(stage: Stage) -> None:
    stage.strings.hold(stage.namespace, "gone-worker-1")
    stage.submit(training_job("gone"))
    until(lambda: all(stage.members("gone").values()) and stage.members("gone"), "it is bound")
    assert stage.jobs.phase("gone") == "Starting"


def running(stage: Stage) -> None:
    job = training_job("gone")
    job["spec"] |= {"framework": "mpi", "roles": FRAMEWORKS["mpi"][0]}
    stage.run(job)
    kinds = {one.partition("/")[0] for one in stage.left_of("gone")}
    assert kinds == {"pods", "services", "secrets", "networkpolicies"}


def restarting(stage: Stage) -> None:
    slow = {"initial": "10m", "max": "10m"}
    stage.run(training_job("gone", failurePolicy={"restart": "gang", "backoff": slow}))
    stage.finish("gone", "worker-0", exit_code=1)
    stage.jobs.wait_phase("gone", "Restarting")


def finished(stage: Stage) -> None:
    stage.run(training_job("gone"))
    stage.finish("gone")
    stage.jobs.wait_phase("gone", "Succeeded")


@pytest.mark.parametrize("reached", [queued, starting, running, restarting, finished])
def test_nothing_is_left_of_a_job_that_is_deleted(stage: Stage, reached: Any) -> None:
    reached(stage)
    stage.delete("gone")
    stage.strings.release_all()


def test_an_invalid_job_is_rejected_until_it_is_put_right(stage: Stage) -> None:
    job = training_job("wrong")
    job["spec"]["roles"]["manager"] = role(1)
    job["spec"]["framework"] = "pytorch"
    stage.submit(job)
    status = stage.jobs.wait_phase("wrong", "Failed")["status"]
    assert status["reason"] == "Rejected"
    assert "spec.roles.manager" in status["message"]
    stage.change("wrong", {"framework": "indexed"})
    stage.jobs.wait_phase("wrong", "Running")


def test_a_job_that_is_edited_into_nonsense_is_stopped(stage: Stage) -> None:
    stage.run(training_job("broken"))
    stage.change("broken", {"framework": "no-such-framework"})
    assert stage.jobs.wait_phase("broken", "Failed")["status"]["reason"] == "Rejected"
    until(lambda: stage.jobs.pods("broken") == [], "its pods are gone")
    stage.change("broken", {"framework": "indexed"})
    assert stage.jobs.wait_phase("broken", "Running")["status"]["epoch"] == 1
