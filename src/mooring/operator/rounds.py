"""Rounds of the queue: when room may have appeared, the brain decides and statuses say so.

Each decision is written over the version of the job that it was made on. One that is refused ends
the round: those after it may count on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from mooring.backends.kubernetes.api.errors import ApiError, Conflict, KubeError
from mooring.backends.kubernetes.jobs import admission
from mooring.backends.kubernetes.jobs.admission import JobCandidate
from mooring.backends.kubernetes.jobs.pools import access_rules
from mooring.backends.kubernetes.jobs.record import Stage
from mooring.backends.kubernetes.jobs.training_job import ParsedJob, job_key
from mooring.brain import queue
from mooring.operator.caches import Caches
from mooring.operator.metrics import Metrics
from mooring.operator.statuses import Statuses
from mooring.operator.work import WorkQueue

log = logging.getLogger(__name__)

#: Changes come in bursts: a round waits for those that come with the first, and the next one for
#: what has gathered meanwhile.
_PAUSE_S = 0.01
_REST_S = 0.05
_AT_LEAST_EVERY_S = 30.0
#: How long the queue goes on without a job that it fails on.
_ASIDE_S = 60.0
#: Answers to a write that would be given for any other job as well.
_NOT_ABOUT_THE_JOB = (401, 403, 429, 503, 504)
#: The stages that a round looks at; a new job has none yet.
_IN_QUEUE = (None, Stage.QUEUED.value, Stage.ADMITTED.value)


class Rounds:
    """`due` is set by whoever sees room appear or a job arrive."""

    def __init__(
        self,
        caches: Caches,
        statuses: Statuses,
        work: WorkQueue,
        metrics: Metrics,
        due: asyncio.Event,
        allowed: Callable[[], bool],
        now: Callable[[], float],
    ) -> None:
        self._caches, self._statuses, self._work = caches, statuses, work
        self._last = admission.LastRound()
        self._aside: dict[str, float] = {}
        self._metrics, self._due, self._allowed, self._now = metrics, due, allowed, now

    async def run(self) -> None:
        """Until cancelled."""
        ended_s = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), _AT_LEAST_EVERY_S)
            await asyncio.sleep(max(_PAUSE_S, ended_s + _REST_S - time.monotonic()))
            self._due.clear()
            if not self._allowed():
                continue
            try:
                await self.one()
            except KubeError as error:
                log.warning("admission: %s", error)
                self._due.set()
            except Exception:
                log.exception("admission: a defect; it is tried again")
                await asyncio.sleep(1.0)
                self._due.set()
            ended_s = time.monotonic()

    async def one(self) -> None:
        """One round."""
        started_s, now_s = time.monotonic(), self._now()
        candidates = list(self._candidates(now_s))
        try:
            decisions = self._decide(candidates, now_s)
        except Exception:
            log.exception("admission: a defect; the jobs are tried one by one")
            candidates = self._without_culprits(candidates, now_s)
            decisions = self._decide(candidates, now_s)
        by_name = {job_key(candidate.view.key): candidate for candidate in candidates}
        for decision in decisions:
            if not await self._carry_out(decision, by_name[decision.job], now_s):
                self._due.set()
                break
        waiting = [candidate for candidate in candidates if candidate.record.stage is Stage.QUEUED]
        self._metrics.round(time.monotonic() - started_s, len(waiting))
        later = [one.record.not_before_s for one in waiting if one.record.not_before_s > now_s]
        if later:
            asyncio.get_running_loop().call_later(min(later) - now_s, self._due.set)

    def _decide(self, candidates: Sequence[JobCandidate], now_s: float) -> Sequence[queue.Decision]:
        caches = self._caches
        return admission.decide(
            candidates,
            caches.machines(),
            caches.pods,
            caches.pools,
            now_s,
            storage=caches.stored.storage,
            last=self._last,
        )

    def _without_culprits(
        self, candidates: Sequence[JobCandidate], now_s: float
    ) -> list[JobCandidate]:
        """Those with which alone a round can be decided; the others are set aside."""
        self._last = admission.LastRound()
        good = []
        for candidate in candidates:
            try:
                self._decide([candidate], now_s)
                good.append(candidate)
            except Exception as error:
                self._set_aside(candidate, f"{type(error).__name__} while it was placed", now_s)
        self._last = admission.LastRound()
        return good

    def _set_aside(self, candidate: JobCandidate, why: str, now_s: float) -> None:
        """The queue goes on without this job for a while. What its pods hold is counted."""
        log.error("%s/%s is left out of the queue: %s", *candidate.view.key, why)
        self._aside[candidate.view.uid] = now_s + _ASIDE_S

    def _candidates(self, now_s: float) -> Iterator[JobCandidate]:
        self._aside = {uid: until_s for uid, until_s in self._aside.items() if until_s > now_s}
        rules = access_rules(self._caches.pools)
        for view in self._caches.jobs:
            if view.deleting or view.status.get("stage") not in _IN_QUEUE:
                continue
            if view.uid in self._aside:
                continue
            holds = view.status.get("stage") == Stage.ADMITTED.value
            if not holds and not self._caches.is_at_hand(view):
                # Who has just come and is large joins a later round: the others do not wait for it.
                continue
            parsed = self._caches.parsed(view)
            if not isinstance(parsed, ParsedJob):
                continue
            try:
                record = self._caches.record(view, parsed)
                one = admission.candidate(view, parsed, record, rules)
            except Exception:
                log.exception("%s/%s has no part in the queue: a defect", *view.key)
                self._aside[view.uid] = now_s + _ASIDE_S
                continue
            if one is not None:
                yield one

    async def _carry_out(self, decision: queue.Decision, one: JobCandidate, now_s: float) -> bool:
        """False if the job has changed since it was decided on."""
        record = admission.record_after(decision, one, now_s)
        if isinstance(decision, queue.Wait):
            record = replace(record, message=record.message + self._not_ready())
        pods = self._caches.pods_of(one.view)
        try:
            await self._statuses.save(one.view, one.parsed, record, pods, now_s)
        except Conflict:
            return False
        except ApiError as error:
            if error.status in _NOT_ABOUT_THE_JOB:
                raise
            # Too large, or not valid. Those after it may count on what was refused: the next round
            # goes without this job.
            self._set_aside(one, f"its status is refused: {error.message:.200}", now_s)
            return False
        if isinstance(decision, queue.Admit):
            self._metrics.admitted(now_s - one.record.queued_at_s)
        if not isinstance(decision, queue.Wait):
            self._work.add(one.view.key)
        return True

    def _not_ready(self) -> str:
        """Nodes that are there and count for nothing: the brain is not told of them."""
        count = sum(1 for view in self._caches.nodes if not view.ready)
        if not count:
            return ""
        return f" {count} node{'s are' if count > 1 else ' is'} not ready."
