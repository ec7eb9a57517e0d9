"""Six stories of jobs. Each waits for what it needs, so it does not matter who is killed meanwhile.

2 nodes of 4 CPUs: 8 members of one CPU fill a lane, or 4 of two.
"""

from __future__ import annotations

from collections.abc import Callable

from kube.cluster.client import MERGE
from kube.faults.lanes import Lane
from kube.operator import jobs_path


def create(lane: Lane) -> None:
    """A gang starts whole and succeeds."""
    lane.create(lane.job("one", roles={"ps": 1, "worker": 2}))
    lane.wait_running("one", 0, 3)
    lane.finish("one")
    lane.wait("one", "Succeeded")


def grow(lane: Lane) -> None:
    """An elastic job is given two more members, and starts anew with three."""
    lane.create(lane.job("one", roles={"worker": 1}, minAvailable=1))
    lane.wait_running("one", 0, 1)
    more = {"spec": {"roles": {"worker": {"replicas": 3}}}}
    lane.plane.admin.patch(jobs_path(lane.namespace, "one"), more, MERGE)
    lane.wait_running("one", 1, 3)


def shrink(lane: Lane) -> None:
    """4 members of 2 CPUs fill the lane; a more urgent job needs the room of two of them."""
    lane.create(lane.job("one", roles={"worker": 4}, minAvailable=2, cpu=2))
    lane.wait_running("one", 0, 4)
    lane.create(lane.job("urgent", roles={"worker": 2}, cpu=2, priority="urgent"))
    lane.wait_running("urgent", 0, 2)
    lane.wait_running("one", 1, 2)


def member_failure(lane: Lane) -> None:
    """A worker fails: the gang starts anew, once, and succeeds."""
    lane.create(lane.job("one", roles={"worker": 2}))
    lane.wait_running("one", 0, 2)
    lane.fail("one-worker-1")
    lane.wait_running("one", 1, 2)
    lane.finish("one")
    lane.wait("one", "Succeeded", 1)


def preempt(lane: Lane) -> None:
    """A job that fills the lane gives way to an urgent one, waits, and starts again."""
    lane.create(lane.job("one", roles={"worker": 4}, cpu=2))
    lane.wait_running("one", 0, 4)
    lane.create(lane.job("urgent", roles={"worker": 2}, cpu=2, priority="urgent"))
    lane.wait_running("urgent", 0, 2)
    lane.wait("one", "Queued", 1)
    lane.finish("urgent")
    lane.wait("urgent", "Succeeded")
    lane.wait_running("one", 1, 4)


def delete(lane: Lane) -> None:
    """A running job is deleted, and another of the same name is made at once.

    The second one names its node: otherwise that depends on how soon the first one's pods are gone.
    """
    here = {"nodeSelector": {"kubernetes.io/hostname": f"{lane.name}-000"}}
    lane.create(lane.job("one", roles={"worker": 2}))
    lane.wait_running("one", 0, 2)
    before = {pod["metadata"]["uid"] for pod in lane.jobs.pods("one")}
    lane.jobs.delete("one")
    lane.create(lane.job("one", roles={"worker": 1, "ps": 1}, placement=here))
    lane.wait_running("one", 0, 2)

    def all_new() -> bool:
        return not before & {pod["metadata"]["uid"] for pod in lane.jobs.pods("one")}

    lane.until(all_new, "the first job's pods are gone")


SCENARIOS: dict[str, Callable[[Lane], None]] = {
    "create": create,
    "grow": grow,
    "shrink": shrink,
    "member-failure": member_failure,
    "preempt": preempt,
    "delete": delete,
}
