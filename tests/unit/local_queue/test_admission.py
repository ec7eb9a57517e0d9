"""A round of the queue on this machine: what is promised counts, what others hold counts too."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mooring.backends.local.occupancy import LiveRun, NodeCut, fits, sized_to
from mooring.backends.local.queue import entry as entries
from mooring.backends.local.queue.admission import Candidate, Round, Sharing, round_of
from mooring.backends.local.queue.documents import Admission, PromisedPlan
from mooring.backends.local.queue.entry import QueueEntry
from mooring.brain import queue
from mooring.model.cluster import Cpu, Gpu, Node
from mooring.model.member import MemberId
from mooring.model.plan import Plan, Slot
from mooring.model.resources import Resources
from mooring.record import RunInfo, RunRecord
from mooring.record.plan_file import Holding
from mooring.spec.load import check_job
from mooring.spec.pools import PoolEntry

MACHINE = Node(
    name="here",
    cpus=tuple(Cpu(number, number, 0, 0, 0) for number in range(4)),
    cpu_millis=4000,
    memory_bytes=8 << 30,
    gpus=tuple(Gpu(number, 0) for number in range(4)),
)
CUT = NodeCut(MACHINE)


def candidate(name: str, number: int, cpu: float = 2, replicas: int = 1, **spec: Any) -> Candidate:
    worker = {"replicas": replicas, "resources": {"cpu": cpu, **spec.pop("resources", {})}}
    document = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "framework": "indexed",
            "command": ["true"],
            "roles": {"worker": worker},
            **spec,
        },
    }
    job = check_job(document, name)
    entry = QueueEntry(
        number,
        f"{name}-{number}",
        name,
        "/",
        name,
        float(number),
        members=replicas,
        pool=job.spec.pool or "",
        priority=job.spec.priority,
    )
    return Candidate.of(entry, job)


def admitted(one: Candidate, plan: Plan, now_s: float = 10.0) -> Candidate:
    given = Admission(
        number=1, run_id=f"run-of-{one.entry.id}", token="abc123", plan=PromisedPlan.of(plan)
    )
    return Candidate(entries.admitted(one.entry, given, now_s), one.job, one.gang)


def live_run(run_id: str, *holdings: Holding, queue_job: str = "", nodes: int = 0) -> LiveRun:
    info = RunInfo(
        run_id, "abc123", "job", os.getpid(), 0.0, time.time(), "here", "0", nodes, "", True, "", ""
    )
    info = RunInfo(**{**info.__dict__, "queue_job": queue_job})
    return LiveRun(RunRecord(info, Path("/nowhere")), holdings)


def holding(cpu_millis: int, slot: Slot) -> Holding:
    return Holding(MemberId("worker", 0), Resources(cpu_millis), slot)


def held(*candidates: Candidate, runs: tuple[LiveRun, ...] = (), cut: NodeCut = CUT) -> Round:
    return round_of(candidates, cut, runs, Sharing(), 100.0)


def kinds(round_: Round) -> list[tuple[str, str]]:
    decisions = round_.decide(100.0, explain=True)
    return [(type(one).__name__, one.job) for one in decisions]


def test_who_fits_is_admitted_and_the_rest_waits_in_order() -> None:
    jobs = [candidate(name, number) for number, name in enumerate("abcd", 1)]
    round_ = held(*jobs)
    assert kinds(round_) == [("Admit", "a-1"), ("Admit", "b-2"), ("Wait", "c-3"), ("Wait", "d-4")]
    assert round_.lines() == {"": ["a-1", "b-2", "c-3", "d-4"]}


def test_a_promise_counts_before_its_run_has_begun() -> None:
    first, second = candidate("a", 1, cpu=3), candidate("b", 2, cpu=3)
    [admit] = held(first).decide(10.0, explain=False)
    assert isinstance(admit, queue.Admit)
    assert kinds(held(admitted(first, admit.plan), second)) == [("Wait", "b-2")]


def test_the_run_of_a_promise_is_not_counted_twice() -> None:
    first, second = candidate("a", 1), candidate("b", 2)
    [admit] = held(first).decide(10.0, explain=False)
    assert isinstance(admit, queue.Admit)
    slot = admit.plan.placements[0].slot
    running = live_run("run-of-a-1", holding(2000, slot), queue_job="a-1")
    assert kinds(held(admitted(first, admit.plan), second, runs=(running,))) == [("Admit", "b-2")]


def test_a_run_of_somebody_else_holds_what_it_holds() -> None:
    outside = live_run("other", holding(3000, Slot("here", (0, 1, 2, 3))))
    assert kinds(held(candidate("a", 1), runs=(outside,))) == [("Wait", "a-1")]
    assert kinds(held(candidate("a", 1, cpu=1), runs=(outside,))) == [("Admit", "a-1")]


def test_a_promised_place_that_somebody_has_taken_is_lost() -> None:
    first = candidate("a", 1)
    [admit] = held(first).decide(10.0, explain=False)
    assert isinstance(admit, queue.Admit)
    outside = live_run("other", holding(3000, Slot("here", (0, 1, 2, 3))))
    round_ = held(admitted(first, admit.plan), runs=(outside,))
    assert round_.lost == ("a-1",)
    assert round_.state.running == ()


def test_the_room_of_one_that_gives_way_is_promised_to_others() -> None:
    first, second = candidate("a", 1, cpu=4), candidate("b", 2, cpu=4)
    [admit] = held(first).decide(10.0, explain=False)
    assert isinstance(admit, queue.Admit)
    gives_way = admitted(first, admit.plan)
    gives_way = Candidate(entries.preempted(gives_way.entry, "b"), first.job, first.gang)
    slot = admit.plan.placements[0].slot
    still_there = live_run("run-of-a-1", holding(4000, slot), queue_job="a-1")
    assert kinds(held(gives_way, second, runs=(still_there,))) == [("Admit", "b-2")]


def test_a_job_that_must_wait_for_its_time_is_not_asked() -> None:
    one = candidate("a", 1)
    later = Candidate(
        QueueEntry(**{**one.entry.__dict__, "not_before_s": 500.0}), one.job, one.gang
    )
    assert kinds(held(later)) == []


def test_pools_and_priorities_are_those_of_the_file() -> None:
    pools = tuple(
        PoolEntry.model_validate({"name": name, "guaranteed": {"cpu": 2}}) for name in ("x", "y")
    )
    sharing = Sharing(pools, {"nightly": -100})
    one = candidate("a", 1, pool="x", priority="nightly")
    queued = one.queued(sharing)
    assert (queued.pool, queued.priority) == ("x", -100)
    assert one.queued(sharing) is queued
    assert one.queued(Sharing()).pool == queue.DEFAULT_POOL
    round_ = round_of([one, candidate("b", 2, pool="y")], CUT, (), sharing, 100.0)
    assert round_.lines() == {"x": ["a-1"], "y": ["b-2"]}


def test_virtual_nodes_are_cut_once_whatever_is_held() -> None:
    cut = NodeCut(MACHINE, virtual_nodes=2)
    outside = live_run("other", holding(1000, Slot("here", (3,), exclusive=True)))
    shared = live_run("shared", holding(1000, Slot("here", (0, 1, 2, 3))))
    snapshot = cut.snapshot([outside, shared])
    assert [node.name for node in snapshot.nodes] == ["node-0", "node-1"]
    assert [len(node.cpus) for node in snapshot.nodes] == [2, 2]
    assert snapshot.use_of("node-1").cpus == {3}
    assert snapshot.use_of("node-0").resources.cpu_millis == 500
    assert snapshot.use_of("node-1").resources.cpu_millis == 1500


def test_runs_of_the_queue_are_on_the_virtual_node_that_their_plan_names() -> None:
    cut = NodeCut(MACHINE, virtual_nodes=2)
    ours = live_run("a", holding(1000, Slot("node-1", (2, 3))), queue_job="a-1", nodes=2)
    snapshot = cut.snapshot([ours])
    assert snapshot.use_of("node-0").resources.cpu_millis == 0
    assert snapshot.use_of("node-1").resources.cpu_millis == 1000


def test_devices_that_others_hold_are_taken_where_they_are() -> None:
    cut = NodeCut(MACHINE, virtual_nodes=2)
    whole = live_run("a", holding(0, Slot("here", (0,), gpus=(0,))))
    share = live_run("b", holding(0, Slot("here", (0,), gpus=(3,), gpu_share_millis=250)))
    snapshot = cut.snapshot([whole, share])
    assert snapshot.use_of("node-0").gpus == {0}
    assert snapshot.use_of("node-1").gpus == frozenset()
    assert snapshot.use_of("node-1").gpu_shares == ((3, 250),)


def test_a_plan_fits_only_while_its_slots_are_free() -> None:
    one = candidate("a", 1, cpu=1, replicas=3, pinning="exclusive")
    [admit] = held(one).decide(10.0, explain=False)
    assert isinstance(admit, queue.Admit)
    gang = sized_to(one.gang, admit.plan)
    assert fits(gang, admit.plan, CUT.snapshot([]))
    cpu = admit.plan.placements[0].slot.cpus
    taken = live_run("other", holding(1000, Slot("here", cpu, exclusive=True)))
    assert not fits(gang, admit.plan, CUT.snapshot([taken]))
