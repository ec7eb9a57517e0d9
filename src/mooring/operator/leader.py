"""One of several replicas leads: a Lease that must be renewed, and time to let go before it ends.

A replica that could not renew in time stops acting by its own clock, before another may take
over; a status that it still has under way is refused by the server, because the next leader's
first write changed the version.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Json, Object, mapping, number, text
from mooring.backends.kubernetes.api.errors import AlreadyExists, Conflict, KubeError, NotFound
from mooring.backends.kubernetes.api.resources import LEASE
from mooring.backends.kubernetes.api.times import parse_time, write_time

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseSettings:
    """A holder renews every `retry_s`, acts for `renew_s` after a renewal, and is taken for gone
    after `duration_s`."""

    namespace: str
    name: str = "mooring-operator"
    duration_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0


class Leader:
    """Whether this replica may act."""

    def __init__(
        self,
        client: Client,
        identity: str,
        settings: LeaseSettings,
        changed: Callable[[bool], None] = lambda leads: None,
    ) -> None:
        self._client, self._identity, self._settings = client, identity, settings
        self._changed = changed
        self._renewed_s = float("-inf")
        self._told = False
        #: (holder, renewTime, transitions) as last seen, and when by our clock.
        self._seen: tuple[str, str] | None = None
        self._seen_s = 0.0
        self.elected = asyncio.Event()

    @property
    def leads(self) -> bool:
        """True only while nobody else can be leading, whatever we could not hear meanwhile."""
        return time.monotonic() < self._renewed_s + self._settings.renew_s

    async def run(self) -> None:
        """Try to lead and stay leader, until cancelled."""
        while True:
            asked_s = time.monotonic()
            try:
                if await self._try():
                    # Counted from before the call: others count from after it.
                    self._renewed_s = asked_s
            except KubeError as error:
                log.warning("lease %s: %s", self._settings.name, error)
            self._tell()
            await asyncio.sleep(self._settings.retry_s)

    async def resign(self) -> None:
        """Let the next one in at once."""
        if not self.leads:
            return
        self._renewed_s = float("-inf")
        self._tell()
        try:
            lease = await self._client.get(LEASE, self._settings.name, self._settings.namespace)
            if text(lease, "spec", "holderIdentity") == self._identity:
                await self._client.replace(LEASE, self._lease(lease, holder=""))
        except KubeError as error:
            log.warning("lease %s: %s", self._settings.name, error)

    def _tell(self) -> None:
        if self.leads != self._told:
            self._told = self.leads
            log.info("this replica %s", "leads" if self._told else "no longer leads")
            self._changed(self._told)
        if self.leads:
            self.elected.set()
        else:
            self.elected.clear()

    async def _try(self) -> bool:
        try:
            lease = await self._client.get(LEASE, self._settings.name, self._settings.namespace)
        except NotFound:
            try:
                await self._client.create(LEASE, self._lease({}, holder=self._identity))
            except AlreadyExists:
                return False
            return True
        holder = text(lease, "spec", "holderIdentity")
        if holder and holder != self._identity and not self._gone(lease):
            return False
        try:
            await self._client.replace(LEASE, self._lease(lease, holder=self._identity))
        except Conflict:
            return False
        return True

    def _gone(self, lease: Object) -> bool:
        """Has the holder not renewed for as long as it promised, by our own clock?"""
        seen = (text(lease, "spec", "holderIdentity"), text(lease, "spec", "renewTime"))
        now_s = time.monotonic()
        if seen != self._seen:
            self._seen, self._seen_s = seen, now_s
        promised_s = number(lease, "spec", "leaseDurationSeconds") or self._settings.duration_s
        return now_s >= self._seen_s + promised_s

    def _lease(self, before: Object, *, holder: str) -> dict[str, Json]:
        now = write_time(time.time())
        spec = mapping(before, "spec")
        same = text(spec, "holderIdentity") == holder
        transitions = number(spec, "leaseTransitions")
        metadata: dict[str, Json] = {
            "name": self._settings.name,
            "namespace": self._settings.namespace,
        }
        version = text(before, "metadata", "resourceVersion")
        if version:
            metadata["resourceVersion"] = version
        acquired = text(spec, "acquireTime") if same else ""
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                # Rounded up: others must not take us for gone while we may still act.
                "leaseDurationSeconds": math.ceil(self._settings.duration_s) if holder else 1,
                "acquireTime": acquired if parse_time(acquired) else now,
                "renewTime": now,
                "leaseTransitions": transitions if same or not before else transitions + 1,
            },
        }
