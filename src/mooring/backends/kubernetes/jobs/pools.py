"""Pools of the cluster: the same entries as in a cluster file, as objects of the API server."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from mooring.backends.kubernetes.api.document import Object, mapping, text
from mooring.backends.kubernetes.jobs.pool_access import OPEN, PoolAccess, Pools, access_of
from mooring.brain.queue import PoolSpec
from mooring.model.errors import BadInput
from mooring.model.resources import Resources
from mooring.spec.load import check_pool
from mooring.spec.pools import PoolEntry

log = logging.getLogger(__name__)


#: What says who may use a pool: if it cannot be read, nobody may.
_ACCESS = ("namespaces", "maxPriority")


@dataclass(frozen=True)
class PoolView:
    """A pool; one that does not pass the checks has no guarantee and no limit."""

    entry: PoolEntry
    access: PoolAccess = OPEN


def parse_pool(obj: Object) -> PoolView:
    name, spec = text(obj, "metadata", "name"), mapping(obj, "spec")
    try:
        pool = check_pool({**spec, "name": name}, f"pool {name}")
        return PoolView(pool, access_of(pool))
    except BadInput as error:
        problem = error.problems[0]
        log.warning("pool %s is not used as written: %s", name, problem)
        closed = f"{problem.path} of the pool '{name}' is not valid"
        restricted = any(spec.get(key) is not None for key in _ACCESS)
        return PoolView(PoolEntry(name=name), PoolAccess(closed=closed) if restricted else OPEN)


def access_rules(views: Iterable[PoolView]) -> Pools:
    return Pools((view.entry.name, view.access) for view in views)


def pool_specs(views: Iterable[PoolView], total: Resources) -> tuple[PoolSpec, ...]:
    """The pools in the brain's words, on a cluster that has `total`."""
    entries = sorted((view.entry for view in views), key=lambda entry: entry.name)
    divided = frozenset().union(*(entry.named() for entry in entries))
    return tuple(
        PoolSpec(entry.name, *entry.amounts(divided, total), float(entry.weight))
        for entry in entries
    )
