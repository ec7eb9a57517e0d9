"""The cluster's storage, followed for jobs that mount volumes.

Without the right to read it nothing is known of it, and volumes are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mooring.backends.kubernetes.api.cache import Cache, Following, View
from mooring.backends.kubernetes.api.document import Object
from mooring.backends.kubernetes.api.resources import (
    CLAIM,
    CSI_NODE,
    STORAGE_CLASS,
    VOLUME,
    ResourceKind,
)
from mooring.backends.kubernetes.objects.storage import (
    LimitsView,
    parse_claim,
    parse_class,
    parse_limits,
    parse_volume,
    storage_of,
)
from mooring.model.resources import Counts
from mooring.model.volumes import Storage


class MakeCache(Protocol):
    """A cache that may stay empty for want of the right to fill it."""

    def __call__(
        self,
        kind: ResourceKind,
        parse: Callable[[Object], View],
        changed: Callable[[View | None, View | None], None],
    ) -> Cache[View]: ...


class Stored:
    """`room` is called when a volume may have become usable."""

    def __init__(self, cache: MakeCache, room: Callable[[], None]) -> None:
        def changed(before: object, after: object) -> None:
            if before != after:
                room()

        self._claims = cache(CLAIM, parse_claim, changed)
        self._volumes = cache(VOLUME, parse_volume, changed)
        self._classes = cache(STORAGE_CLASS, parse_class, changed)
        self._limits = cache(CSI_NODE, parse_limits, changed)

    @property
    def caches(self) -> tuple[Following, ...]:
        return self._claims, self._volumes, self._classes, self._limits

    def storage(self) -> Storage | None:
        """None: nothing is known."""
        if not all(one.known for one in (self._claims, self._volumes, self._classes)):
            return None
        return storage_of(self._claims, self._volumes, self._classes)

    def limits_of(self, node: str) -> Counts:
        found: LimitsView | None = self._limits.get("", node)
        return found.limits if found is not None else ()
