"""The loop in virtual time: jobs arrive and end, and in between the scheduler is asked.

All that happens at one instant is taken together (ends first, so that their room is there for
who arrives) and followed by one question to the scheduler, and that only if somebody waits or
could grow. As in a real cluster the scheduler works in rounds, `round_s` apart at least: what
happens soon after a round waits for the next. Time alone can change an answer too (ageing, a
reclaim that is due): while jobs wait the scheduler is also asked at ticks, at growing distances
as long as nothing comes of it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

from mooring.simulate.metrics import JobRecord, Meter
from mooring.simulate.scheduler import Moved, PlanResized, Preempted, SimulatedScheduler, Started
from mooring.simulate.workload import Workload, WorkloadJob

#: The first tick after a change; later ones twice as far apart each, up to the longest.
FIRST_TICK_S = 60.0
LONGEST_TICK_S = 6 * 3600.0
#: Rounds on an idle cluster that change nothing before those who wait are given up.
_LAST_ROUNDS = 3
#: Volcano's default schedule-period is a second too.
ROUND_S = 1.0
#: `on_progress` is told once for so many jobs that ended.
_PROGRESS_EVERY = 256


@dataclass(slots=True)
class _Running:
    """A job with slots: `left_s` of its work is to be done from `since_s` on.

    `over`: it no longer has them, so that its end is not going to come.
    """

    job: WorkloadJob
    left_s: float
    rate: float
    since_s: float
    started_s: float
    whole: bool
    over: bool = False


@dataclass(frozen=True)
class SimulationResult:
    """How a simulation ended: a record of each job, and who never got a place and why."""

    records: tuple[JobRecord, ...]
    never_started: dict[str, str]
    ended_s: float
    events: int
    decisions: int
    moves: tuple[tuple[float, Moved], ...] = ()
    """When which group of nodes went to another pool."""


class Simulation:
    def __init__(
        self,
        workload: Workload,
        scheduler: SimulatedScheduler,
        meter: Meter,
        round_s: float = ROUND_S,
    ) -> None:
        self._round_s = round_s
        self._jobs = workload.jobs
        self._scheduler = scheduler
        self._meter = meter
        self._now_s = 0.0
        #: The number is only there to differ.
        self._ends: list[tuple[float, int, _Running]] = []
        self._turn = 0
        self._running: dict[str, _Running] = {}
        #: What is left to do of jobs that wait.
        self._waiting: dict[str, tuple[WorkloadJob, float]] = {}
        self._records: dict[str, JobRecord] = {}
        self._partial = 0
        self._events = self._decisions = self._ended = 0
        self._finished_s = 0.0
        self._moves: list[tuple[float, Moved]] = []

    def run(
        self, on_progress: Callable[[int, float], None] = lambda ended, now_s: None
    ) -> SimulationResult:
        """To the end of the last job that can ever run."""
        jobs, ends = self._jobs, self._ends
        following, count, told = 0, len(jobs), 0
        tick_s, idle_rounds = FIRST_TICK_S, 0
        last_round_s, next_round_s = -math.inf, math.inf
        if jobs:
            self._meter.begin(jobs[0].arrival_s, jobs[-1].arrival_s)
        while True:
            while ends and ends[0][2].over:
                heapq.heappop(ends)
            now_s = next_round_s
            if ends and ends[0][0] < now_s:
                now_s = ends[0][0]
            if following < count and jobs[following].arrival_s < now_s:
                now_s = jobs[following].arrival_s
            if now_s == math.inf:
                break
            self._now_s = now_s
            happened = False
            while ends and ends[0][0] <= now_s:
                running = heapq.heappop(ends)[2]
                if not running.over:
                    self._end(running)
                    happened = True
            while following < count and jobs[following].arrival_s <= now_s:
                self._arrive(jobs[following])
                following += 1
                happened = True
            if self._ended - told >= _PROGRESS_EVERY:
                told = self._ended
                on_progress(told, now_s)
            quiet = not self._waiting and not self._partial
            if quiet and self._scheduler.wakes_s(now_s) is None:
                next_round_s, idle_rounds = math.inf, 0
                continue
            if happened:
                next_round_s = min(next_round_s, max(now_s, last_round_s + self._round_s))
            if now_s < next_round_s:
                continue
            changed = self._decide()
            last_round_s = now_s
            tick_s = FIRST_TICK_S if changed or happened else min(2 * tick_s, LONGEST_TICK_S)
            next_round_s = now_s + tick_s if self._waiting else math.inf
            wakes_s = self._scheduler.wakes_s(now_s)
            if wakes_s is not None and self._running:
                next_round_s = min(next_round_s, wakes_s)
            idle = not self._running and following == count
            idle_rounds = idle_rounds + 1 if idle and not changed else 0
            if idle_rounds > _LAST_ROUNDS:
                break
        on_progress(self._ended, self._finished_s)
        self._meter.advance(self._finished_s)
        sentences = self._scheduler.waiting()
        return SimulationResult(
            tuple(self._records[job.name] for job in jobs),
            {name: sentences.get(name, "") for name in self._waiting},
            self._finished_s,
            self._events,
            self._decisions,
            tuple(self._moves),
        )

    def _arrive(self, job: WorkloadJob) -> None:
        self._events += 1
        self._meter.advance(self._now_s)
        self._meter.waiting += 1
        self._records[job.name] = JobRecord(job.name, job.pool, job.arrival_s, job.duration_s)
        self._waiting[job.name] = (job, job.work_s)
        self._scheduler.arrive(job, self._now_s)

    def _end(self, running: _Running) -> None:
        self._events += 1
        name = running.job.name
        del self._running[name]
        self._partial -= not running.whole
        self._meter.advance(self._now_s)
        self._meter.released(name)
        self._records[name].ended_s = self._finished_s = self._now_s
        self._ended += 1
        self._scheduler.end(name, self._now_s)

    def _decide(self) -> bool:
        self._decisions += 1
        changes = self._scheduler.decide(self._now_s)
        if changes:
            self._meter.advance(self._now_s)
        for change in changes:
            match change:
                case Started():
                    job, left_s = self._waiting.pop(change.job)
                    self._meter.waiting -= 1
                    self._meter.held(job, change.plan)
                    record = self._records[job.name]
                    if record.started_s is None:
                        record.started_s = self._now_s
                    self._run(job, left_s, len(change.plan.placements), self._now_s + job.start_s)
                case Preempted():
                    self._preempt(change.job)
                case Moved():
                    self._moves.append((self._now_s, change))
                case PlanResized():
                    running = self._stop(change.job)
                    self._meter.released(change.job)
                    self._meter.held(running.job, change.plan)
                    left_s = self._left_s(running)
                    members = len(change.plan.placements)
                    self._run(running.job, left_s, members, running.since_s, running.started_s)
        return bool(changes)

    def _run(
        self,
        job: WorkloadJob,
        left_s: float,
        members: int,
        since_s: float,
        started_s: float | None = None,
    ) -> None:
        """From `since_s` on, or from now if that has passed. Checkpoints count from `started_s`."""
        rate = members * job.speed
        since_s = max(since_s, self._now_s)
        started_s = since_s if started_s is None else started_s
        self._turn += 1
        whole = members >= job.members
        running = _Running(job, left_s, rate, since_s, started_s, whole)
        self._running[job.name] = running
        self._partial += not whole
        heapq.heappush(self._ends, (since_s + left_s / rate, self._turn, running))

    def _stop(self, name: str) -> _Running:
        running = self._running.pop(name)
        running.over = True
        self._partial -= not running.whole
        return running

    def _left_s(self, running: _Running) -> float:
        worked_s = max(0.0, self._now_s - running.since_s)
        return max(0.0, running.left_s - running.rate * worked_s)

    def _preempt(self, name: str) -> None:
        running = self._stop(name)
        self._meter.released(name)
        self._meter.waiting += 1
        job = running.job
        before = job.work_s
        left_s = self._left_s(running)
        if job.checkpoint_s is not None:
            # Checkpoints come every so many seconds of running; what follows the last is lost.
            worked_s = max(0.0, self._now_s - running.started_s)
            since_checkpoint_s = worked_s % job.checkpoint_s
            before = min(before, left_s + running.rate * since_checkpoint_s)
        record = self._records[name]
        record.preemptions += 1
        record.lost_s += before - left_s
        self._waiting[name] = (job, before)
