"""Keeping what has ended within bounds: runs by the user's limits, records of jobs by ours."""

from __future__ import annotations

import asyncio
import logging
import time

from mooring.backends.local.queue.roster import Roster
from mooring.backends.local.queue.store import StoreFull
from mooring.record.retention import KeptRuns, beyond, ended_runs, remove

log = logging.getLogger(__name__)

_EVERY_S = 600.0
_FIRST_S = 5.0
#: Jobs that have ended and are still listed.
MOST_ENDED = 1000


async def keep_within(roster: Roster, kept: KeptRuns) -> None:
    """Until cancelled, look now and then at what there is too much of."""
    await asyncio.sleep(_FIRST_S)
    while True:
        forget_oldest(roster)
        if kept.limited:
            await asyncio.to_thread(remove_beyond, kept)
        await asyncio.sleep(_EVERY_S)


def forget_oldest(roster: Roster) -> None:
    """Of jobs that have ended, the records beyond the last thousand. Their runs stay."""
    surplus = roster.store.count_ended() - MOST_ENDED
    if surplus <= 0:
        return
    try:
        roster.remove_ended(roster.store.oldest_ended(surplus))
    except StoreFull as error:
        log.error("%s", error)


def remove_beyond(kept: KeptRuns) -> None:
    for each in beyond(ended_runs(), kept, time.time()):
        try:
            removed = remove(each, dry_run=False)
        except OSError as error:
            log.error("cannot remove %s: %s", each.run.root, error)
            continue
        log.info("removed the run %s, %d bytes", removed.run, removed.freed_bytes)
