"""Who may use a pool, and how high its jobs may go.

A pool that no object describes is held to what the Pool `default` says, as jobs without a pool
are: a new name must not be a way around a limit. Nobody's running job is ended by a pool that
becomes stricter; it only no longer counts as the pool's own, or as high as it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mooring.brain import queue
from mooring.brain.queue.order import CLASSES
from mooring.model.errors import BadInput, Problem
from mooring.planning import priority_of
from mooring.spec import TrainingJob
from mooring.spec.base import describe
from mooring.spec.pools import ClusterPool

_MOST_NAMED = 5


@dataclass(frozen=True)
class PoolAccess:
    """Of one pool. `namespaces` None: all; `max_priority` None: no limit."""

    namespaces: frozenset[str] | None = None
    max_priority: int | None = None
    closed: str = ""
    """Why nobody may use it: what it says of access cannot be read."""


OPEN = PoolAccess()


def access_of(pool: ClusterPool) -> PoolAccess:
    """Raises BadInput for a priority class that there is not."""
    most = pool.max_priority
    try:
        limit = None if most is None else priority_of(most, CLASSES, "pool")
    except BadInput as error:
        [problem] = error.problems
        raise BadInput.at("pool", "maxPriority", problem.found, problem.accepted) from None
    allowed = None if pool.namespaces is None else frozenset(pool.namespaces)
    return PoolAccess(allowed, limit)


@dataclass(frozen=True)
class PoolStanding:
    """How a job that holds a place counts: in which pool, and how high."""

    pool: str
    priority: int


class Pools:
    """The access rules of all pools."""

    def __init__(
        self, rules: Mapping[str, PoolAccess] | Iterable[tuple[str, PoolAccess]] = ()
    ) -> None:
        self._rules = dict(rules)

    def refusals(self, job: TrainingJob, priority: int, namespace: str) -> Sequence[Problem]:
        """Why the job may not go where it wants to; nothing if it may."""
        pool = job.spec.pool or queue.DEFAULT_POOL
        rule = self._of(pool)
        problems = []
        if rule.closed:
            accepted = f"a pool that can be used: {rule.closed}"
            problems.append(Problem("spec.pool", repr(pool), accepted))
        elif not _admits(rule, namespace):
            there = _listed(rule.namespaces or ())
            accepted = f"a pool that the namespace '{namespace}' may use; '{pool}' is for {there}"
            problems.append(Problem("spec.pool", repr(pool), accepted))
        if rule.max_priority is not None and priority > rule.max_priority:
            accepted = f"at most {rule.max_priority}, the maxPriority of the pool '{pool}'"
            problems.append(Problem("spec.priority", describe(job.spec.priority), accepted))
        return problems

    def standing(self, job: TrainingJob, priority: int, namespace: str) -> PoolStanding:
        """As what a job counts that already runs, whatever it says by now."""
        pool = job.spec.pool or queue.DEFAULT_POOL
        if not _admits(self._of(pool), namespace):
            pool = queue.DEFAULT_POOL
        most = self._of(pool).max_priority
        return PoolStanding(pool, priority if most is None else min(priority, most))

    def _of(self, pool: str) -> PoolAccess:
        return self._rules.get(pool) or self._rules.get(queue.DEFAULT_POOL, OPEN)


def _admits(rule: PoolAccess, namespace: str) -> bool:
    return not rule.closed and (rule.namespaces is None or namespace in rule.namespaces)


def _listed(namespaces: Iterable[str]) -> str:
    names = sorted(namespaces)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (", ".join(names[:_MOST_NAMED]) + more) or "none"
