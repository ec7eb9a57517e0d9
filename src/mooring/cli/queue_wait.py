"""A `moor run` that waits for its turn in the machine's queue, as its user sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

    from mooring.backends.local.queue.turn import WaitingPlace


class QueueWait:
    """Why it waits and its place: on a terminal kept up to date until `close`, into a file one line
    for each change."""

    def __init__(self, console: Callable[[], Console]) -> None:
        self._console = console
        self._since_s = time.monotonic()
        self._live: Live | None = None
        self._said = ""

    def show(self, place: WaitingPlace) -> None:
        console = self._console()
        if not console.is_terminal:
            said = f"{standing(place)}: {place.reason}" if place.reason else standing(place)
            if said != self._said:
                self._said = said
                console.print(said, soft_wrap=True)
            return
        if self._live is None:
            from rich.live import Live

            self._live = Live(console=console, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(self._drawn(place), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _drawn(self, place: WaitingPlace) -> Group:
        from rich.console import Group
        from rich.text import Text

        from mooring.model.amounts import duration

        waited = duration(round(time.monotonic() - self._since_s))
        head = f"{standing(place)}, {waited} so far; Ctrl-C leaves it"
        return Group(Text(head, style="bold"), Text(place.reason))


def standing(place: WaitingPlace) -> str:
    """`b-2 waits in the queue, place 3 behind a-1`."""
    where = f", place {place.position}" if place.position else ""
    behind = f" behind {place.behind}" if place.behind else ""
    return f"{place.job_id} waits in the queue{where}{behind}"
