"""An API server that refuses, resets, delays, forgets and lags: no crash, no wrong delete."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable

import pytest

from kube.cluster.control_plane import ControlPlane
from kube.cluster.puppets import Puppets
from kube.faults import scenarios
from kube.faults.lanes import Lane, lane
from kube.faults.nursery import Nursery
from kube.faults.proxy import PASS, Call, Fault
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

FAULTS: dict[str, Callable[[Call], Fault]] = {
    "409": lambda call: Fault(409, "AlreadyExists" if call.method == "POST" else "Conflict"),
    "410": lambda call: Fault(gone_watch=True) if call.watch else Fault(410, "Expired"),
    "429": lambda call: Fault(429, "TooManyRequests"),
    "500": lambda call: Fault(500, "InternalError"),
    "reset": lambda call: Fault(reset=True),
    "answer lost": lambda call: Fault(end_watch_after=1) if call.watch else Fault(cut=True),
    "delay": lambda call: Fault(delay_s=0.7),
}


class Once:
    """The first call of each method to each path goes wrong, the next ones do not."""

    def __init__(self, fault: Callable[[Call], Fault]) -> None:
        self._fault = fault
        self._seen: set[tuple[str, str, bool]] = set()

    def __call__(self, call: Call) -> Fault:
        # Events have a new name each time, and nobody depends on them.
        about = (call.method, call.path, call.watch)
        if about in self._seen:
            return PASS
        self._seen.add(about)
        return self._fault(call)


@pytest.mark.parametrize("kind", FAULTS)
def test_every_call_goes_wrong_once(
    kind: str, control_plane: ControlPlane, nursery: Nursery, strings: Puppets
) -> None:
    with lane(control_plane, nursery, strings) as here:
        here.proxy.rule = Once(FAULTS[kind])
        here.start()
        scenarios.create(here)
        # Four lists, four watches, the status, the service, the pods, events.
        assert here.proxy.faults >= 12
        assert here.proxy.pods_deleted() == []
        assert here.defects == []
        print(f"\n{kind}: {here.proxy.faults} faults in {here.proxy.calls} calls")


def test_lost_watch_events_heal_by_listing_again(
    control_plane: ControlPlane, nursery: Nursery, strings: Puppets
) -> None:
    chance = random.Random(7)
    dropped = 0

    def drop() -> bool:
        nonlocal dropped
        lost = chance.random() < 0.5
        dropped += lost
        return lost

    with lane(control_plane, nursery, strings, ("--resync=1",)) as here:
        here.proxy.rule = lambda call: Fault(drop_event=drop) if call.watch else PASS
        here.start()
        scenarios.member_failure(here)
        assert dropped > 5
        assert here.defects == []
        print(f"\n{dropped} watch events dropped")


class Lagging:
    """Keeps the first list of some kind, and shows it to the next operator. Watches begin only once
    `caught_up` is set."""

    def __init__(self, plural: str) -> None:
        self._plural = plural
        self._kept: bytes | None = None
        self.lags = False
        self.shown = 0
        self.caught_up = threading.Event()
        self.caught_up.set()

    def __call__(self, call: Call) -> Fault:
        if call.method != "GET" or not call.path.endswith(f"/{self._plural}"):
            return PASS
        if call.watch:
            return Fault(hold=self.caught_up)
        if not self.lags:
            return Fault(keep=self._keep)
        self.lags = False
        self.shown += 1
        return Fault(stored=self._kept)

    def _keep(self, answer: bytes) -> None:
        self._kept = answer


@pytest.mark.parametrize("plural", ["trainingjobs", "pods"])
def test_a_server_that_lags_after_a_restart_leads_to_no_wrong_delete(
    plural: str, control_plane: ControlPlane, nursery: Nursery, strings: Puppets
) -> None:
    with lane(control_plane, nursery, strings) as here:
        before, lagging = restarted_while_it_lags(here, plural)
        here.finish("one")
        here.wait("one", "Succeeded")
        assert lagging.shown == 1
        assert uids(here) == before
        assert here.proxy.pods_deleted() == []
        assert here.defects == []


def test_pods_that_no_list_has_shown_yet_do_not_count_as_deleted(
    control_plane: ControlPlane, nursery: Nursery, strings: Puppets
) -> None:
    """The job is looked at between a list without its pods and the first event of their watch."""
    with lane(control_plane, nursery, strings) as here:
        before, lagging = restarted_while_it_lags(here, "pods", silent=True)
        asked = ("GET", f"/api/v1/namespaces/{here.namespace}/pods", 200)
        until(lambda: asked in here.proxy.answered, "the server is asked for the job's pods", 60)
        lagging.caught_up.set()
        here.finish("one")
        here.wait("one", "Succeeded")
        assert uids(here) == before
        assert here.proxy.pods_deleted() == []
        assert here.defects == []


def restarted_while_it_lags(
    here: Lane, plural: str, *, silent: bool = False
) -> tuple[list[str], Lagging]:
    """A running job whose operator is killed; the next one is shown a list of before the job's
    start and, if `silent`, no change after it. Returns the job's pods."""
    here.proxy.rule = lagging = Lagging(plural)
    here.create(here.job("one", roles={"worker": 2}))
    here.start()
    here.wait_running("one", 0, 2)
    before = uids(here)
    lagging.lags = True
    if silent:
        lagging.caught_up.clear()
    here.kill_and_start()
    until(lambda: here.log.count("caches are filled") == 2, "the next one has listed", 60)
    return before, lagging


def uids(here: Lane) -> list[str]:
    return [pod["metadata"]["uid"] for pod in here.jobs.pods("one")]


def test_a_leader_that_sleeps_with_an_admission_under_way_admits_nobody(
    control_plane: ControlPlane, nursery: Nursery, strings: Puppets
) -> None:
    """Its write reaches the server when another leads, who gave the room to somebody else."""
    with (
        lane(control_plane, nursery, strings) as here,
        lane(control_plane, nursery, strings) as other,
    ):
        home = f"--operator-namespace={here.namespace}"
        elect = ("--leader-elect", home, "--lease-duration=3")
        here.flags = elect
        other.flags, other.namespace = elect, here.namespace
        go_on, asleep = threading.Event(), threading.Event()

        def sleep_at_first_admission(call: Call) -> Fault:
            if call.method == "PUT" and call.path.endswith("/status") and not asleep.is_set():
                os.kill(here.pid, signal.SIGSTOP)
                asleep.set()
                return Fault(hold=go_on)
            return PASS

        here.proxy.rule = sleep_at_first_admission
        here.start()
        until(lambda: "this replica leads" in here.log, "the first one leads", 60)
        other.start()
        here.create(here.job("one", roles={"worker": 4}, cpu=2))
        until(asleep.is_set, "the leader is about to admit", 60)
        here.create(here.job("urgent", roles={"worker": 4}, cpu=2, priority="urgent"))
        here.wait_running("urgent", 0, 4)
        here.wait("one", "Queued")
        go_on.set()

        def late() -> list[int]:
            asked = [(path, code) for method, path, code in here.proxy.answered if method == "PUT"]
            return [code for path, code in asked if path.endswith("/one/status")]

        until(late, "the late write has been answered", 60)
        os.kill(here.pid, signal.SIGCONT)
        until(lambda: "no longer leads" in here.log, "it has noticed", 60)
        assert late() == [409]
        assert here.jobs.phase("one") == "Queued"
        assert here.jobs.pods("one") == []
        assert len(here.running("urgent")) == 4
        assert here.defects == other.defects == []


def test_restarts_of_etcd_and_of_the_api_server_in_the_middle_of_a_job(
    control_plane: ControlPlane, nursery: Nursery, strings: Puppets
) -> None:
    with lane(control_plane, nursery, strings) as here:
        here.start()
        here.create(here.job("one", roles={"worker": 2}))
        here.wait_running("one", 0, 2)
        before = uids(here)
        control_plane.restart("etcd")
        assert uids(here) == before
        here.fail("one-worker-0")
        here.wait_running("one", 1, 2)
        control_plane.kill("kube-apiserver")
        control_plane.start("kube-apiserver")
        control_plane.wait_ready()
        here.finish("one")
        here.wait("one", "Succeeded", 1)
        assert here.defects == []
