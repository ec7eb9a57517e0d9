"""What a hostile tenant does, one deed a function; each ends when its effect can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube.cluster.client import ApiError, Json
from kube.objects import pod, pods_path
from kube.operator import jobs_path
from kube.tenants.world import NODE_CPUS, POOL, STEADY, World
from support.waiting import until

Deed = Callable[[World], None]
DEEDS: list[Deed] = []
HIGHEST = 2**31 - 1


def deed(function: Deed) -> Deed:
    DEEDS.append(function)
    return function


def rejected(world: World, name: str, field: str) -> None:
    found = world.hostile.wait_phase(name, "Failed")["status"]
    assert found["reason"] == "Rejected", found
    assert field in found["message"], found
    assert world.hostile.pods(name) == []


@deed
def nests_a_job_too_deeply(world: World) -> None:
    inner: Json = {"end": "x"}
    for _ in range(600):
        inner = {"in": inner}
    world.submit("deep", kubernetes={"volumes": [{"name": "v", "csi": inner}]})
    rejected(world, "deep", "spec.kubernetes.volumes")


@deed
def takes_the_others_pool(world: World) -> None:
    world.submit("foreign", {"worker": 4}, cpu=NODE_CPUS, pool=POOL, priority="urgent")
    rejected(world, "foreign", "spec.pool")


@deed
def asks_for_the_highest_priority(world: World) -> None:
    for name, pool in (("high", {}), ("around", {"pool": "made-up"})):
        world.submit(name, {"worker": 4}, cpu=NODE_CPUS, priority=HIGHEST, **pool)
        rejected(world, name, "spec.priority")


@deed
def borrows_all_that_is_free(world: World) -> None:
    """The good tenant's guarantee comes back to it when its jobs arrive."""
    for number in range(7):
        world.submit(f"greedy-{number}", {"worker": 1}, cpu=4, gracePeriod="1s")
    until(lambda: world.hostile.phase("greedy-0") == "Running", "the first of them runs", 60)


@deed
def climbs_while_it_runs(world: World) -> None:
    """Edits that no webhook sees: another pool, the highest priority, more members, none at all."""
    world.submit("climber", {"worker": 1}, gracePeriod="1s")
    world.hostile.wait_phase("climber", "Running")
    world.edit("climber", {"priority": HIGHEST})
    world.edit("climber", {"pool": POOL, "priority": "urgent"})
    world.edit("climber", {"roles": {"worker": {"replicas": 30}}})
    world.edit("climber", {"roles": {"worker": None, "x": {"command": ["y"]}}})
    world.edit("climber", {"kubernetes": {"volumes": [{"name": "mooring"}]}})


@deed
def floods_the_queue(world: World) -> None:
    for number in range(120):
        world.submit(f"flood-{number}", {"worker": 2}, cpu=100)
    until(lambda: world.hostile.phase("flood-119") == "Queued", "they wait", 60)


@deed
def submits_giants(world: World) -> None:
    for number in range(3):
        world.submit(f"giant-{number}", {"worker": 10_000}, cpu=1)
    until(lambda: world.hostile.phase("giant-2") == "Queued", "they wait", 60)


@deed
def submits_what_hardly_fits_into_the_server(world: World) -> None:
    """Nearly 1.5 MiB as stored: a status that is a little longer no longer fits beside it."""
    filler = "x" * 1000
    env = {f"V{number}": filler for number in range(1400)}
    try:
        world.submit("fat", {"worker": 1}, env=env)
    except ApiError as error:
        assert error.status in (413, 422, 500), error
    world.submit("stout", {"worker": 1}, env=dict(list(env.items())[:900]))
    until(lambda: world.hostile.phase("stout"), "it is looked at", 60)


@deed
def hides_load_behind_the_labels_of_a_good_job(world: World) -> None:
    """Pods that fill three of four nodes, put there past every scheduler, as a good job's members:
    whoever does not count them promises the good tenant room that is not there."""
    good = world.jobs.get(STEADY)["metadata"]
    for index, node in enumerate(world.nodes[:3]):
        labels = {
            "app.kubernetes.io/managed-by": "mooring",
            "mooring.dev/job": STEADY,
            "mooring.dev/job-uid": good["uid"],
            "mooring.dev/role": "worker",
            "mooring.dev/index": str(index),
            "mooring.dev/epoch": "0",
            "mooring.dev/attempt": "0",
        }
        name = f"{STEADY}-worker-{index}"
        made = pod(name, requests={"cpu": str(NODE_CPUS)}, labels=labels, nodeName=node)
        made["metadata"]["annotations"] = {"mooring.dev/cpus": "0-9999"}
        world.mallory.create(pods_path(world.evil), made)


@deed
def plays_the_good_tenants_job(world: World) -> None:
    """The same name and labels, in its own namespace."""
    labels = world.jobs.get(STEADY)["metadata"].get("labels") or {}
    job = world.submit(STEADY, {"worker": 2}, gracePeriod="1s")
    assert job["metadata"].get("labels", {}) == labels
    world.hostile.wait_phase(STEADY, "Running")
    world.mallory.delete(jobs_path(world.evil, STEADY))


@deed
def deletes_what_the_operator_made(world: World) -> None:
    world.submit("torn", {"worker": 2})
    world.hostile.wait_phase("torn", "Running")
    services = f"/api/v1/namespaces/{world.evil}/services"
    for _ in range(3):
        before = world.plane.admin.get(f"{services}/torn")["metadata"]["uid"]
        world.mallory.delete(f"{services}/torn")

        def is_back(before: str = before) -> bool:
            found = {one["metadata"]["name"]: one for one in world.plane.admin.items(services)}
            return "torn" in found and found["torn"]["metadata"]["uid"] != before

        until(is_back, "its Service is made again", 30)
    for api, kind in (("/api/v1", "secrets"), ("/apis/networking.k8s.io/v1", "networkpolicies")):
        path = f"{api}/namespaces/{world.evil}/{kind}"
        for one in world.plane.admin.items(path, labelSelector="mooring.dev/job=torn"):
            world.mallory.delete(f"{path}/{one['metadata']['name']}")


@deed
def takes_names_in_advance(world: World) -> None:
    services = f"/api/v1/namespaces/{world.evil}/services"
    ports: list[Any] = [{"port": 80}]
    world.mallory.create(services, {"metadata": {"name": "late"}, "spec": {"ports": ports}})
    world.submit("late")
    message = "in the way"
    until(lambda: message in world.hostile.status("late").get("message", ""), message, 60)


@deed
def makes_and_deletes_jobs_of_one_name(world: World) -> None:
    for _ in range(15):
        world.submit("again", gracePeriod="1s")
        world.mallory.delete(jobs_path(world.evil, "again"))


@deed
def pauses_and_goes_on_all_the_time(world: World) -> None:
    world.submit("flapping", {"worker": 1}, gracePeriod="1s")
    for number in range(30):
        world.edit("flapping", {"kubernetes": {"suspend": number % 2 == 0}})


@deed
def writes_to_its_jobs_all_the_time(world: World) -> None:
    world.submit("noisy", {"worker": 1})
    for number in range(150):
        notes = {"metadata": {"annotations": {"noise": f"{number}" * 500}}}
        world.mallory.patch(jobs_path(world.evil, "noisy"), notes)


@deed
def fails_without_end(world: World) -> None:
    policy = {"restart": "gang", "maxRestarts": 100, "backoff": {"initial": 0, "max": 0}}
    world.submit("frail", {"worker": 1}, failurePolicy=policy, gracePeriod="1s")
    for epoch in range(4):

        def runs(epoch: int = epoch) -> bool:
            status = world.hostile.status("frail")
            return status.get("phase") == "Running" and status["epoch"] == epoch

        until(runs, f"it runs for the {epoch + 1}th time", 60)
        world.strings.finish(world.evil, "frail-worker-0", exit_code=1)


@deed
def has_its_members_evicted_with_long_words(world: World) -> None:
    world.submit(
        "many", {"worker": 60}, cpu="10m", memory="1Mi", failurePolicy={"restart": "never"}
    )
    world.hostile.wait_phase("many", "Running")
    for number in range(60):
        words = f"The node was low on resource {number}. " + "x" * 20_000
        status = {"phase": "Failed", "reason": "Evicted", "message": words}
        path = f"{pods_path(world.evil)}/many-worker-{number}/status"
        try:
            world.plane.admin.patch(path, {"status": status})
        except ApiError as error:
            # The first failure ends the job, and its other pods go.
            assert error.status == 404, error
    world.hostile.wait_phase("many", "Failed")


@deed
def keeps_its_jobs_from_going(world: World) -> None:
    job = world.submit("undead", {"worker": 1}, gracePeriod="1s")
    finalizers = {"metadata": {"finalizers": ["example.com/never"]}}
    path = jobs_path(world.evil, job["metadata"]["name"])
    world.mallory.patch(path, finalizers)
    world.mallory.delete(path)
