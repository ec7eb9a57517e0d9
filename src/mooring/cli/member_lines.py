"""What members print, as `moor run` and `moor attach` show it while it is printed.

All that is shown comes from the members' logs. A member may print more than anybody can read: then
the newest lines are shown about once a second, and the number of those that are left out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from mooring.cli.member_names import colour
from mooring.record import RunRecord
from mooring.record.logs import LogLine, LogTail
from mooring.report.lines import Collapse, ShownLine, label
from mooring.report.printable import printable

#: Lines younger than this wait for the next time: other members may be about to print the same.
_SETTLE = timedelta(seconds=0.2)
#: Whatever was left out, the last lines of each member are shown: they say why it ended.
_LAST_LINES = 30
#: So many of the lines shown last are remembered, not to be repeated behind them.
_REMEMBERED = 60
_OUT, _ERR = "│", "!"


@dataclass(frozen=True)
class Pace:
    """How many lines are shown at once, and how many a second for long."""

    burst: int
    per_s: int


#: Enough for tracebacks of some members; more lines a second nobody can read.
TERMINAL = Pace(1_000, 100)
#: Formatting a line takes some 10 µs: this stays at a few percent of one CPU.
PIPE = Pace(50_000, 5_000)


class MemberLines:
    """Call `read` often: it returns what is to be printed now, or None."""

    def __init__(self, run: RunRecord, *, terminal: bool, last: int | None = None) -> None:
        self._run = run
        self._terminal = terminal
        self._last = last
        self._pace = TERMINAL if terminal else PIPE
        self._allowance = float(self._pace.burst)
        self._refilled_s = time.monotonic()
        self._flooded = False
        self._tails: dict[str, LogTail] = {}
        self._held: list[LogLine] = []
        self._collapse = Collapse()
        self._skipped = 0
        self._exact = True
        self._recent: deque[LogLine] = deque(maxlen=_REMEMBERED)

    def read(
        self, chosen: Sequence[str], processes: Mapping[str, int], *, last: bool = False
    ) -> ManyLines | None:
        """Lines of the `chosen` members since the last call; with `last` all that is held, too.

        `processes`: how many local processes each member of the job has. Where there are several,
        a line is that of `worker-0:1`, by the local rank.
        """
        lines = self._take(chosen, last)
        self._recent.extend(lines)
        everybody = [
            name
            for member, count in processes.items()
            for name in ([member] if count <= 1 else [f"{member}:{rank}" for rank in range(count)])
        ]
        lines = [
            line._replace(member=f"{line.member}:{line.rank}")
            if processes.get(line.member, 1) > 1
            else line
            for line in lines
        ]
        if self._terminal:
            shown = self._collapse.add(lines, time.monotonic())
            if last:
                shown += self._collapse.rest()
        else:
            shown = [ShownLine(line.text, line.stream, {line.member: 1}) for line in lines]
        skipped, self._skipped = self._skipped, 0
        if not shown and not skipped:
            return None
        return ManyLines(
            shown, everybody, self._terminal, _not_shown(skipped, self._exact, self._run)
        )

    def showed(self, lines: Iterable[LogLine]) -> bool:
        """Whether these lines are among those shown last."""
        return set(lines) <= set(self._recent)

    def _take(self, chosen: Sequence[str], last: bool) -> list[LogLine]:
        self._refill()
        if self._flooded and self._allowance < self._pace.per_s and not last:
            return []
        waiting = [
            (size, tail) for name in chosen if (size := (tail := self._tail(name)).waiting_bytes())
        ]
        # Who printed little is heard in full; those who printed most share what is left.
        waiting.sort(key=lambda pair: pair[0])
        fresh, self._held = self._held, []
        self._flooded = False
        for index, (_, tail) in enumerate(waiting):
            share = int(self._allowance) // (len(waiting) - index)
            found = tail.read(max(share, _LAST_LINES if last else 1))
            fresh += found.lines
            self._allowance = max(0.0, self._allowance - len(found.lines))
            self._skipped += found.skipped
            self._exact = self._exact and found.exact
            self._flooded = self._flooded or found.skipped > 0
        fresh.sort(key=lambda line: line.at)
        if self._terminal and not last:
            settled = (datetime.now(UTC) - _SETTLE).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            self._held = [line for line in fresh if line.at > settled]
            fresh = fresh[: len(fresh) - len(self._held)]
        return fresh

    def _tail(self, member: str) -> LogTail:
        tail = self._tails.get(member)
        if tail is None:
            tail = self._tails[member] = LogTail(self._run.log_file(member), member)
            if self._last is not None:
                tail.start_at_last(self._last)
        return tail

    def _refill(self) -> None:
        now_s = time.monotonic()
        more = (now_s - self._refilled_s) * self._pace.per_s
        self._allowance = min(float(self._pace.burst), self._allowance + more)
        self._refilled_s = now_s


@dataclass(frozen=True)
class ManyLines:
    """Lines with the names of who printed them: cut at the terminal's width, whole elsewhere."""

    lines: Sequence[ShownLine]
    everybody: Sequence[str]
    cut: bool
    note: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max((len(name) for name in self.everybody), default=0)
        members = list(dict.fromkeys(name.partition(":")[0] for name in self.everybody))
        colours = {member: Style.parse(colour(index)) for index, member in enumerate(members)}
        styles = {name: colours[name.partition(":")[0]] for name in self.everybody}
        order = {name: index for index, name in enumerate(self.everybody)}
        several, plain, err = Style.parse("bold"), Style(), Style.parse("yellow")
        if self.note:
            yield Segment(f"{self.note}\n", Style.parse("dim"))
        for line in self.lines:
            # Whoever printed before it was known how many processes it has comes first.
            printed_by = sorted(line.counts, key=lambda name: order.get(name, -1))
            name, also = label(printed_by, self.everybody)
            said = printable(line.text)
            suffix = line.suffix + also
            if self.cut:
                said = _cut(said, options.max_width - width - 3 - cell_len(suffix))
            mark = _ERR if line.stream == "err" else _OUT
            yield Segment(f"{name:<{width}} ", styles.get(name, several))
            yield Segment(mark, err if mark == _ERR else styles.get(name, several))
            yield Segment(f" {said}" if said else "", plain)
            yield Segment(f"{suffix}\n", Style.parse("dim"))


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(1, width - 1)) + "…"


def _not_shown(count: int, exact: bool, run: RunRecord) -> str:
    if not count:
        return ""
    about = "" if exact else "about "
    lines = "line" if count == 1 else "lines"
    return f"… {about}{count:,} {lines} not shown, all are in `moor logs {run.info.id}`"
