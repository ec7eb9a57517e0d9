"""Why a job of the live queue waits, and what would let it start. Every change has been tried out
on the queue as it is: who runs, who waits before it, what other runs hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mooring.backends.local.queue.admission import Candidate, Round
from mooring.brain import queue
from mooring.brain.changes import changes, smallest
from mooring.brain.profile import DEFAULT
from mooring.brain.queue.order import key, standing
from mooring.explaining import Explanation
from mooring.model.cluster import Snapshot
from mooring.model.errors import BadInput
from mooring.model.member import Gang, MemberId
from mooring.model.plan import Refusal

#: Jobs whose end is tried out, those that are expected to end first before others.
_MOST_ENDS = 20


def explain_live(
    candidate: Candidate, round_: Round, sentence: str, member: str | None, now_s: float
) -> Explanation:
    """About a job that has not ended. `sentence` is what the queue says of it, if it waits."""
    job_id = candidate.entry.id
    asked = next((each for each in round_.state.waiting if each.job == job_id), None)
    named = _named(candidate.gang, member)
    if asked is None:
        return _placed(candidate, round_, named, sentence)
    gang = asked.sized(asked.least)[0]
    answer = round_.cluster.place(gang)
    if named is None:
        named = answer.member if isinstance(answer, Refusal) else gang.members[0].id
    shown = gang if any(each.id == named for each in gang.members) else candidate.gang
    verdicts = round_.cluster.explain(shown, named)
    ways = tuple(_Ways(asked, round_, now_s).all())
    return Explanation(job_id, named, verdicts, None, sentence, True, ways)


def _placed(
    candidate: Candidate, round_: Round, named: MemberId | None, sentence: str
) -> Explanation:
    """Of a job that has a place, or that waits for a time to come."""
    entry = candidate.entry
    slots = entry.plan.plan(entry.id).placements if entry.plan is not None else ()
    nodes = {placement.member: placement.slot.node for placement in slots}
    named = named or next(iter(nodes), candidate.gang.members[0].id)
    note = "" if named in nodes else sentence or f"{entry.id} is {entry.state.value}"
    verdicts = round_.cluster.explain(candidate.gang, named)
    return Explanation(entry.id, named, verdicts, nodes.get(named), note=note)


@dataclass(frozen=True)
class _Ways:
    """Single changes after which a job that waits would start now."""

    asked: queue.QueuedGang
    round: Round
    now_s: float

    def all(self) -> Iterator[str]:
        if self._starts(self.asked):
            yield "nothing: it is about to start"
            return
        yield from self._ends()
        yield from self._of_the_queue()
        snapshot = self.round.cluster.snapshot()
        yield from changes(self.asked.gang, snapshot, DEFAULT, self._fits)

    def _starts(self, asked: queue.QueuedGang, without: frozenset[str] = frozenset()) -> bool:
        """Would it be admitted in a round, once these jobs had ended?"""
        before, cluster = self.round.state, self.round.cluster
        if without:
            cluster = cluster.copy()
            for job in without:
                cluster.release(job)
        turn = key(self.asked, before.policy)
        ahead = (
            each
            for each in before.waiting
            if each.job != asked.job and key(each, before.policy) < turn
        )
        state = replace(
            before,
            waiting=(*ahead, asked),
            running=tuple(each for each in before.running if each.job not in without),
        )
        decisions = queue.decide(state, cluster, self.now_s, explain=False)
        return any(isinstance(one, queue.Admit) and one.job == asked.job for one in decisions)

    def _fits(self, gang: Gang, snapshot: Snapshot) -> bool:
        """More nodes are no advice for one machine."""
        same = len(snapshot.nodes) == len(self.round.cluster.nodes)
        return same and self._starts(replace(self.asked, gang=gang))

    def _ends(self) -> Iterator[str]:
        running = sorted(
            self.round.state.running, key=lambda each: each.end_s(self.now_s) or float("inf")
        )
        alone = [each.job for each in running[:_MOST_ENDS] if self._ended(each.job)]
        for job in alone:
            yield f"{job} has ended"
        for number in range(2, min(len(running), _MOST_ENDS) + 1):
            if alone:
                break
            gone = [each.job for each in running[:number]]
            if self._ended(*gone):
                yield f"{', '.join(gone[:-1])} and {gone[-1]} have ended"
                break

    def _ended(self, *jobs: str) -> bool:
        return self._starts(self.asked, frozenset(jobs))

    def _of_the_queue(self) -> Iterator[str]:
        asked, state = self.asked, self.round.state
        highest = max((standing(each, state.policy) for each in state.running), default=0.0)
        enough = smallest(
            asked.priority + 1,
            int(highest) + 1,
            lambda priority: self._starts(replace(asked, priority=priority)),
        )
        if enough is not None:
            yield f"priority: {enough} instead of {asked.priority} (at the cost of others)"
        if not asked.preemptible and self._starts(replace(asked, preemptible=True)):
            yield "preemptible: true"
        for pool in state.pools:
            if pool.name != asked.pool and self._starts(replace(asked, pool=pool.name)):
                yield f"pool: {pool.name} instead of {asked.pool}"


def _named(gang: Gang, name: str | None) -> MemberId | None:
    if name is None:
        return None
    for member in gang.members:
        if member.name == name:
            return member.id
    known = ", ".join(member.name for member in gang.members[:10])
    raise BadInput.at("moor explain", "MEMBER", repr(name), f"one of {known}")
