"""Why a job goes where it goes or waits, and what would have to change.

Every change that is named has been tried out: on the nodes for a job alone, and through the queue,
with all the other jobs arriving anew, for one among others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from mooring import frameworks
from mooring.brain import queue
from mooring.brain.changes import changes, largest, smallest
from mooring.brain.profile import DEFAULT, Profile
from mooring.brain.queue.order import standing
from mooring.brain.state import ClusterState
from mooring.model.amounts import format_duration
from mooring.model.cluster import Snapshot
from mooring.model.errors import BadInput
from mooring.model.member import Gang, MemberId
from mooring.model.plan import NodeVerdict, Refusal
from mooring.placing import plan_job
from mooring.planning import Cluster, Submitted, plan_queue
from mooring.spec import TrainingJob

#: Sets of jobs whose end is tried, one more each time.
_MOST_ENDS = 8
#: A month: whoever runs longer ends before nobody.
_LONGEST_S = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Explanation:
    """`node` is where the member goes; without one `refused` says why the job does not run, or
    `note` why this member of an elastic gang does not.

    `queued`: it was the queue that said so, and waiting may help.
    """

    job: str
    member: MemberId
    verdicts: tuple[NodeVerdict, ...]
    node: str | None = None
    refused: str | None = None
    queued: bool = False
    changes: tuple[str, ...] = ()
    note: str = ""


def explain(
    jobs: Sequence[Submitted], cluster: Cluster, member: str | None, profile: Profile = DEFAULT
) -> Explanation:
    """About the last of these jobs, and of it this member or the one that matters."""
    if len(jobs) == 1 and not cluster.pools:
        return _alone(*jobs[0], cluster.snapshot, member, profile)
    story = plan_queue(jobs, cluster, profile)
    asked = story.queued[-1]
    running = next((each for each in story.outcome.running if each.job == asked.job), None)
    if running is not None:
        named = _member(asked.gang, member) or running.gang.members[0].id
        there = {each.member: each.slot.node for each in running.plan.placements}
        gang = running.gang if named in there else asked.gang
        verdicts = story.state.explain(gang, named)
        note = "" if named in there else _left_out(asked, running.size, named)
        return Explanation(asked.job, named, verdicts, there.get(named), note=note)
    least = asked.sized(asked.least)[0]
    named = _member(asked.gang, member) or story.blamed(asked.job)
    gang = least if any(each.id == named for each in least.members) else asked.gang
    sentence = next(each.sentence for each in story.outcome.waiting if each.job == asked.job)
    ways = _Ways(story.queued, story.outcome.running, cluster, profile)
    verdicts = story.state.explain(gang, named)
    return Explanation(asked.job, named, verdicts, None, sentence, True, tuple(ways.all()))


def _alone(
    job: TrainingJob, source: str, snapshot: Snapshot, member: str | None, profile: Profile
) -> Explanation:
    gang, answer = plan_job(job, snapshot, source, profile)
    whole = queue.QueuedGang(frameworks.expand(job, source))
    named = _member(whole.gang, member)
    if isinstance(answer, Refusal):
        named = named or answer.member
        shown = gang if any(each.id == named for each in gang.members) else whole.gang
        verdicts = ClusterState(snapshot, profile).explain(shown, named)
        advice = changes(gang, snapshot, profile)
        return Explanation(gang.job, named, verdicts, None, answer.sentence, False, advice)
    named = named or gang.members[0].id
    there = {placement.member: placement.slot.node for placement in answer.placements}
    shown = gang if any(each.id == named for each in gang.members) else whole.gang
    verdicts = ClusterState(snapshot, profile).explain(shown, named)
    note = "" if named in there else _left_out(whole, len(there), named)
    return Explanation(gang.job, named, verdicts, there.get(named), note=note)


def _left_out(queued: queue.QueuedGang, size: int, member: MemberId) -> str:
    return f"{queued.job} runs with {size} of {queued.most} members: {member} has no place"


def _member(gang: Gang, name: str | None) -> MemberId | None:
    if name is None:
        return None
    for member in gang.members:
        if member.name == name:
            return member.id
    known = ", ".join(member.name for member in gang.members[:10])
    raise BadInput.at("moor explain", "MEMBER", repr(name), f"one of {known}")


class _Ways:
    """Single changes after which the last of these jobs would run."""

    def __init__(
        self,
        queued: Sequence[queue.QueuedGang],
        running: Sequence[queue.RunningGang],
        cluster: Cluster,
        profile: Profile,
    ) -> None:
        self.before, self.asked = tuple(queued[:-1]), queued[-1]
        self.running = running
        self.cluster = cluster
        self.profile = profile

    def all(self) -> Iterator[str]:
        yield from self._ends()
        yield from self._of_the_queue()
        yield from changes(self.asked.gang, self.cluster.snapshot, self.profile, self._fits)

    def _starts(
        self,
        asked: queue.QueuedGang,
        before: Sequence[queue.QueuedGang] | None = None,
        cluster: Cluster | None = None,
    ) -> bool:
        cluster = cluster or self.cluster
        gangs = [*(self.before if before is None else before), asked]
        state = ClusterState(cluster.snapshot, self.profile)
        pools, groups = cluster.pools, cluster.groups
        outcome = queue.arrive(gangs, state, cluster.capacity, pools, groups)
        return any(each.job == asked.job for each in outcome.running)

    def _fits(self, gang: Gang, snapshot: Snapshot) -> bool:
        cluster = replace(self.cluster, snapshot=snapshot)
        return self._starts(replace(self.asked, gang=gang), cluster=cluster)

    def _ends(self) -> Iterator[str]:
        """Whose end it waits for: any one that is enough, otherwise the first few together."""
        alone = [each.job for each in self.running if self._without({each.job})]
        for job in alone:
            yield f"{job} has ended"
        for number in range(2, min(len(self.running), _MOST_ENDS) + 1):
            if alone:
                break
            gone = [each.job for each in self.running[:number]]
            if self._without(set(gone)):
                yield f"{', '.join(gone[:-1])} and {gone[-1]} have ended"
                break

    def _without(self, jobs: set[str]) -> bool:
        return self._starts(self.asked, [each for each in self.before if each.job not in jobs])

    def _of_the_queue(self) -> Iterator[str]:
        asked = self.asked
        policy = queue.QueuePolicy()
        highest = max((standing(each, policy) for each in self.running), default=asked.priority)
        enough = smallest(
            asked.priority + 1,
            math.floor(highest) + 1,
            lambda priority: self._starts(replace(asked, priority=priority)),
        )
        if enough is not None:
            yield f"priority: {enough} instead of {asked.priority} (at the cost of others)"
        if not asked.preemptible and self._starts(replace(asked, preemptible=True)):
            yield "preemptible: true"
        for pool in self.cluster.pools:
            if pool.name != asked.pool and self._starts(replace(asked, pool=pool.name)):
                yield f"pool: {pool.name} instead of {asked.pool}"
        longest = largest(
            1,
            math.ceil(min(asked.expected_s or inf, _LONGEST_S)) - 1,
            lambda seconds: self._starts(replace(asked, expected_s=float(seconds))),
        )
        if longest is not None:
            yield f"expectedDuration: {format_duration(longest)} (it ends before others start)"
        roles = asked.gang.roles
        servers = [m for m in asked.gang.members if m.id.role in asked.gang.server_roles]
        fixed = len(servers) + sum(role not in asked.gang.server_roles for role in roles)
        size = largest(
            fixed,
            asked.least - 1,
            lambda size: self._starts(replace(asked, min_available=size)),
        )
        if size is not None:
            yield f"minAvailable: {size}"
