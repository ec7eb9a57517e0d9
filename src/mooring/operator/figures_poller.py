"""Live figures of running jobs: steps, examples a second, and who really has CPUs of its own.

They are read from the launchers, through the API server, beside everything else that the operator
does: nothing waits for them, and a job that does not answer simply has none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Key
from mooring.backends.kubernetes.api.errors import KubeError
from mooring.backends.kubernetes.jobs.ask_launcher import ask_launcher
from mooring.backends.kubernetes.jobs.live_figures import (
    LastStep,
    Live,
    all_done,
    counts_of,
    pinning_of,
    rate_of,
)
from mooring.backends.kubernetes.objects.live import MemberLive, parse_live
from mooring.backends.kubernetes.objects.pods import PodView

log = logging.getLogger(__name__)

_PARALLEL = 8
_ANSWER_S = 3.0


@dataclass(frozen=True)
class Asked:
    """A running job: the pod of its first member answers for all."""

    key: Key
    uid: str
    leader: PodView


class FiguresPoller:
    """`changed` is told which job has new figures; `token_of` is the token of a job by its uid."""

    def __init__(
        self,
        client: Client,
        every_s: float,
        running: Callable[[], Iterable[Asked]],
        changed: Callable[[Key], None],
        now: Callable[[], float],
        token_of: Callable[[str], str],
    ) -> None:
        self._client, self._every_s, self._running = client, every_s, running
        self._token_of = token_of
        self._changed, self._now = changed, now
        self._slots = asyncio.Semaphore(_PARALLEL)
        self._live: dict[str, Live] = {}
        self._counts: dict[str, tuple[float, Mapping[str, MemberLive]]] = {}
        self._last_steps: dict[str, LastStep] = {}

    def of(self, uid: str) -> Live | None:
        return self._live.get(uid)

    def last_step(self, uid: str) -> LastStep | None:
        """None before the first step, and once all steps that were announced are done."""
        return self._last_steps.get(uid)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            jobs = list(self._running())
            there = {job.uid for job in jobs}
            for known in (self._live, self._counts, self._last_steps):
                for uid in [uid for uid in known if uid not in there]:
                    known.pop(uid)
            await asyncio.gather(*map(self._ask, jobs))

    async def _ask(self, job: Asked) -> None:
        try:
            async with self._slots:
                token = self._token_of(job.uid)
                answer = await asyncio.wait_for(
                    ask_launcher(self._client, job.leader, token, "/status"), _ANSWER_S
                )
            members, now_s = parse_live(answer), self._now()
        except (KubeError, TimeoutError):
            return
        except Exception:
            log.exception("figures of %s/%s: a defect", *job.key)
            return
        before = self._counts.get(job.uid)
        self._counts[job.uid] = (now_s, members)
        self._note_step(job, None if before is None else before[1], members, now_s)
        rate = None if before is None else rate_of(before[1], members, now_s - before[0])
        steps = [member.step for member in members.values() if member.step is not None]
        live = Live(rate, max(steps, default=None), pinning_of(members))
        if live != self._live.get(job.uid):
            self._live[job.uid] = live
            self._changed(job.key)

    def _note_step(
        self,
        job: Asked,
        before: Mapping[str, MemberLive] | None,
        members: Mapping[str, MemberLive],
        now_s: float,
    ) -> None:
        epoch = job.leader.mark.epoch if job.leader.mark is not None else 0
        done = counts_of(members)
        if not done or all_done(members):
            self._last_steps.pop(job.uid, None)
            return
        last = self._last_steps.get(job.uid)
        if last is None or last.epoch != epoch or before is None or counts_of(before) != done:
            self._last_steps[job.uid] = LastStep(epoch, now_s, now_s)
            return
        self._last_steps[job.uid] = LastStep(epoch, last.at_s, now_s)
        self._changed(job.key)
