"""Pools of the cluster: the same entries as in a cluster file, as objects of the API server."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from mooring.brain.queue import PoolSpec
from mooring.kubeapi.document import Object, mapping, text
from mooring.model.resources import Resources
from mooring.spec.pools import PoolEntry

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PoolView:
    """A pool; one that does not pass the checks has no guarantee and no limit."""

    entry: PoolEntry


def parse_pool(obj: Object) -> PoolView:
    name = text(obj, "metadata", "name")
    try:
        return PoolView(PoolEntry.model_validate({"name": name, **mapping(obj, "spec")}))
    except ValidationError as error:
        log.warning("pool %s is not used as written: %s", name, error.errors()[0]["msg"])
        return PoolView(PoolEntry(name=name))


def pool_specs(views: Iterable[PoolView], total: Resources) -> tuple[PoolSpec, ...]:
    """The pools in the brain's words, on a cluster that has `total`."""
    entries = sorted((view.entry for view in views), key=lambda entry: entry.name)
    divided = frozenset().union(*(entry.named() for entry in entries))
    return tuple(
        PoolSpec(entry.name, *entry.amounts(divided, total), float(entry.weight))
        for entry in entries
    )
