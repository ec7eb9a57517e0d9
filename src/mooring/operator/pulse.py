"""Live figures of running jobs: steps, examples a second, and who really has CPUs of its own.

They are read from the launchers, through the API server, beside everything else that the operator
does: nothing waits for them, and a job that does not answer simply has none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mooring.bodies.kubernetes import names
from mooring.bodies.kubernetes.live import MemberLive, parse_live
from mooring.bodies.kubernetes.pods import PodView
from mooring.kubeapi.client import Client
from mooring.kubeapi.document import Key
from mooring.kubeapi.errors import KubeError

log = logging.getLogger(__name__)

_PARALLEL = 8
_ANSWER_S = 3.0
#: Members that a status names; of more, those that lack what they asked for come first.
_MOST_NAMED = 32


@dataclass(frozen=True)
class Live:
    """What is written to the status."""

    examples_per_s: float | None = None
    step: int | None = None
    pinning: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A running job: the pod of its first member answers for all."""

    key: Key
    uid: str
    leader: PodView


class Pulse:
    """`changed` is told which job has new figures."""

    def __init__(
        self,
        client: Client,
        every_s: float,
        running: Callable[[], Iterable[Asked]],
        changed: Callable[[Key], None],
        now: Callable[[], float],
    ) -> None:
        self._client, self._every_s, self._running = client, every_s, running
        self._changed, self._now = changed, now
        self._slots = asyncio.Semaphore(_PARALLEL)
        self._live: dict[str, Live] = {}
        self._counts: dict[str, tuple[float, Mapping[str, MemberLive]]] = {}

    def of(self, uid: str) -> Live | None:
        return self._live.get(uid)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            jobs = list(self._running())
            there = {job.uid for job in jobs}
            for known in (self._live, self._counts):
                for uid in [uid for uid in known if uid not in there]:
                    known.pop(uid)
            await asyncio.gather(*map(self._ask, jobs))

    async def _ask(self, job: Asked) -> None:
        pod = job.leader
        try:
            async with self._slots:
                answer = await asyncio.wait_for(
                    self._client.proxy(pod.name, pod.namespace, names.MEETING_PORT, "/status"),
                    _ANSWER_S,
                )
            members, now_s = parse_live(answer), self._now()
        except (KubeError, TimeoutError):
            return
        except Exception:
            log.exception("figures of %s/%s: a defect", *job.key)
            return
        before = self._counts.get(job.uid)
        self._counts[job.uid] = (now_s, members)
        rate = None if before is None else rate_of(before[1], members, now_s - before[0])
        steps = [one.step for one in members.values() if one.step is not None]
        live = Live(rate, max(steps, default=None), pinning_of(members))
        if live != self._live.get(job.uid):
            self._live[job.uid] = live
            self._changed(job.key)


def rate_of(
    before: Mapping[str, MemberLive], after: Mapping[str, MemberLive], passed_s: float
) -> float | None:
    """Examples a second of all members together; None if nobody counts any.

    A member that has started anew counts from zero: what it lost is not taken off.
    """
    done, counted = 0.0, False
    for name, one in after.items():
        if one.examples is None:
            continue
        counted = True
        earlier = before[name].examples if name in before else None
        gained = one.examples - (earlier or 0.0)
        done += gained if gained >= 0 else one.examples
    return done / passed_s if counted and passed_s > 0 else None


def pinning_of(members: Mapping[str, MemberLive]) -> dict[str, str]:
    """Member -> `exclusive 2-3`, or `shared 0-7` and why it is not exclusive as it should be."""
    order = sorted(members, key=lambda name: (not members[name].why, name))
    return {name: _words(members[name]) for name in order[:_MOST_NAMED] if members[name].cpus}


def _words(one: MemberLive) -> str:
    if one.own:
        return f"exclusive {one.cpus}"
    return f"shared {one.cpus}: {one.why}" if one.why else f"shared {one.cpus}"
