"""Members' lines for a person: repeats and the same line of several members are shown once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mooring.record.logs import LogLine

#: A member that goes on repeating itself is heard of so often.
_REPEATS_AFTER_S = 10.0
#: A progress bar prints a line for each of its changes; the newest one is shown so often.
_BAR_EVERY_S = 5.0
_BAR = re.compile(r"\d%\|.*\|")
_NAMED = 3


@dataclass
class ShownLine:
    """A line, who printed it, and how often each did. `more`: it was shown before."""

    text: str
    stream: str
    counts: dict[str, int] = field(default_factory=dict)
    more: bool = False

    @property
    def suffix(self) -> str:
        times = max(self.counts.values())
        if self.more:
            return f" (×{times:,} more)"
        return f" (×{times:,})" if times > 1 else ""


class Collapse:
    """Lines in the order of their time go in batch by batch, fewer lines come out.

    Within a batch, a line that several members printed becomes one, as long as the order of each
    member's own lines stays. A line equal to the member's last one of an earlier batch is counted
    and told when another follows, or after a while. Of a progress bar (as tqdm draws it) the newest
    line is shown now and then, and the last one.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, str]] = {}
        self._again: dict[str, tuple[int, float]] = {}
        self._bars: dict[str, LogLine] = {}
        self._bar_shown_s: dict[str, float] = {}

    def add(self, lines: Iterable[LogLine], now_s: float) -> list[ShownLine]:
        batch = _Batch()
        for line in lines:
            member, key = line.member, (line.text, line.stream)
            if _BAR.search(line.text):
                self._bars[member] = line
                continue
            self._show_bar(batch, member, now_s)
            if member not in batch.place and self._last.get(member) == key:
                count, since_s = self._again.get(member, (0, now_s))
                self._again[member] = (count + 1, since_s)
                continue
            self._tell_repeats(batch, member)
            self._last[member] = key
            batch.add(member, line.text, line.stream)
        for member in list(self._bars):
            if now_s - self._bar_shown_s.get(member, float("-inf")) >= _BAR_EVERY_S:
                self._show_bar(batch, member, now_s)
        for member, (_, since_s) in list(self._again.items()):
            if now_s - since_s >= _REPEATS_AFTER_S:
                self._tell_repeats(batch, member)
        return batch.shown

    def rest(self) -> list[ShownLine]:
        """What has been held back, at the end."""
        batch = _Batch()
        for member in list(self._bars):
            self._show_bar(batch, member, 0.0)
        for member in list(self._again):
            self._tell_repeats(batch, member)
        return batch.shown

    def _show_bar(self, batch: _Batch, member: str, now_s: float) -> None:
        line = self._bars.pop(member, None)
        if line is not None:
            self._tell_repeats(batch, member)
            self._last[member] = (line.text, line.stream)
            self._bar_shown_s[member] = now_s
            batch.add(member, line.text, line.stream)

    def _tell_repeats(self, batch: _Batch, member: str) -> None:
        count, _ = self._again.pop(member, (0, 0.0))
        if count:
            text, stream = self._last[member]
            batch.add(member, text, stream, count, more=True)


class _Batch:
    def __init__(self) -> None:
        self.shown: list[ShownLine] = []
        #: Where each member's last line stands in `shown`.
        self.place: dict[str, int] = {}
        self._found: dict[tuple[str, str, bool], int] = {}

    def add(
        self, member: str, text: str, stream: str, count: int = 1, *, more: bool = False
    ) -> None:
        key = (text, stream, more)
        last = self.place.get(member, -1)
        place = self._found.get(key, -1)
        if place < last or place < 0:
            place = len(self.shown)
            self.shown.append(ShownLine(text, stream, more=more))
            self._found[key] = place
        counts = self.shown[place].counts
        counts[member] = counts.get(member, 0) + count
        self.place[member] = place


def label(members: Sequence[str], everybody: Sequence[str]) -> tuple[str, str]:
    """Whose line it is: the name before it, and what is said behind it if that is not all."""
    if len(members) == 1:
        return members[0], ""
    if len(members) == len(everybody) and len({_role(name) for name in everybody}) > 1:
        return "all", ""
    role = _role(members[0])
    if set(members) == {name for name in everybody if _role(name) == role}:
        return f"{role}-*", ""
    others = members[1:]
    if len(others) > _NAMED:
        return members[0], f" (and {len(others)} others)"
    return members[0], f" (also {', '.join(others)})"


def _role(member: str) -> str:
    return member.rsplit("-", 1)[0]
