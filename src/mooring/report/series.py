"""What members reported and used over time, out of their samples: for charts and exports."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mooring.record import RunRecord
from mooring.wire import Record, read_journal
from mooring.wire.members import Step
from mooring.wire.samples import Sample

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class StepPoint:
    """One report of steps. `step` and `examples` are what was done so far, restarts included."""

    at_s: float
    step: int
    examples: int
    loss: float | None


@dataclass(frozen=True)
class UsePoint:
    """One sample: totals since the attempt began, and what is in memory now."""

    at_s: float
    cpu_s: float
    rss_bytes: int
    received_bytes: int
    sent_bytes: int


@dataclass
class MemberSeries:
    """One member's points, in the order of time. Times are unix seconds."""

    member: str
    steps: list[StepPoint] = field(default_factory=list)
    uses: list[UsePoint] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def examples_per_s(self) -> Points:
        points = [(each.at_s, float(each.examples)) for each in self.steps]
        return rates(points) if self.steps and self.steps[-1].examples else []

    def cpu_percent(self) -> Points:
        return rates([(each.at_s, 100 * each.cpu_s) for each in self.uses])

    def received_per_s(self) -> Points:
        return rates([(each.at_s, float(each.received_bytes)) for each in self.uses])

    def sent_per_s(self) -> Points:
        return rates([(each.at_s, float(each.sent_bytes)) for each in self.uses])

    def memory(self) -> Points:
        return [(each.at_s, float(each.rss_bytes)) for each in self.uses if each.rss_bytes]

    def losses(self) -> Points:
        """By step, not by time: the last of each step."""
        found = {each.step: each.loss for each in self.steps if each.loss is not None}
        return [(float(step), loss) for step, loss in sorted(found.items())]


def read_series(run: RunRecord, members: Iterable[str]) -> list[MemberSeries]:
    return [_read(run, member) for member in members]


def rates(totals: Sequence[tuple[float, float]]) -> Points:
    """Differences of a running total; a restart, where it falls back to zero, is left out."""
    return [
        (t1, (v1 - v0) / (t1 - t0))
        for (t0, v0), (t1, v1) in itertools.pairwise(totals)
        if t1 > t0 and v1 >= v0
    ]


def _read(run: RunRecord, member: str) -> MemberSeries:
    series = MemberSeries(member)
    by_rank: dict[int, int] = {}
    examples = 0
    for record in read_journal(run.sample_file(member), Record):
        match record:
            case Step():
                by_rank[record.rank] = by_rank.get(record.rank, 0) + record.count
                step = record.step if record.step is not None else max(by_rank.values())
                examples += record.examples or 0
                series.steps.append(StepPoint(record.t, step, examples, record.loss))
            case Sample():
                series.samples.append(record)
                series.uses.append(
                    UsePoint(
                        record.t,
                        record.cpu_s,
                        record.rss_bytes,
                        record.rx_bytes,
                        record.tx_bytes,
                    )
                )
    return series
