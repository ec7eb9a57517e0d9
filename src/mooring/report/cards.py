"""What GPUs did, out of samples: means for the tables, curves for the page.

PCIe rates are of one card a sample in turn, so each card has fewer of them than of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mooring.wire.samples import Sample

if TYPE_CHECKING:
    from mooring.report.charts import Curve

_BUSY, _USED, _MEMORY = "busy_percent", "memory_used_bytes", "memory_bytes"
_RX, _TX = "rx_kbytes_per_s", "tx_kbytes_per_s"
_FIGURES = (_BUSY, _USED, _MEMORY, _RX, _TX)


@dataclass(frozen=True)
class CardFigures:
    """One GPU of a member, on average over its samples; None: the driver does not tell."""

    member: str
    gpu: str
    busy_percent: float | None
    memory_used_bytes: int
    memory_bytes: int
    received_mbytes_per_s: float | None
    sent_mbytes_per_s: float | None
    most_received_mbytes_per_s: float | None
    most_sent_mbytes_per_s: float | None


@dataclass
class _Sums:
    total: float = 0.0
    count: int = 0
    most: float = 0.0

    def add(self, value: float) -> None:
        self.total, self.count, self.most = (
            self.total + value,
            self.count + 1,
            max(self.most, value),
        )

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


@dataclass
class Cards:
    """The GPUs of one member, kept up to date sample by sample."""

    _sums: dict[str, dict[str, _Sums]] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        for gpu, card in sample.gpus.items():
            sums = self._sums.setdefault(gpu, {name: _Sums() for name in _FIGURES})
            for name in _FIGURES:
                value: float | None = getattr(card, name)
                if value is not None:
                    sums[name].add(value)

    def figures(self, member: str) -> Iterator[CardFigures]:
        for gpu, sums in sorted(self._sums.items()):
            yield CardFigures(
                member=member,
                gpu=gpu,
                busy_percent=sums[_BUSY].mean,
                memory_used_bytes=int(sums[_USED].mean or 0),
                memory_bytes=int(sums[_MEMORY].mean or 0),
                received_mbytes_per_s=_thousandth(sums[_RX].mean),
                sent_mbytes_per_s=_thousandth(sums[_TX].mean),
                most_received_mbytes_per_s=_thousandth(sums[_RX].most) if sums[_RX].count else None,
                most_sent_mbytes_per_s=_thousandth(sums[_TX].most) if sums[_TX].count else None,
            )


@dataclass
class CardCurves:
    """What each GPU did over time."""

    _points: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)

    def add(self, member: str, at_s: float, sample: Sample) -> None:
        for gpu, card in sample.gpus.items():
            for name, times in ((_BUSY, 1.0), (_RX, 0.001), (_TX, 0.001)):
                value: float | None = getattr(card, name)
                if value is not None:
                    curves = self._points.setdefault(name, {})
                    curves.setdefault(f"{member} GPU {gpu}", []).append((at_s, times * value))

    def charts(self) -> list[tuple[str, list[Curve]]]:
        """Titles with their curves; empty without a GPU."""
        from mooring.report.charts import Curve

        titles = {
            _BUSY: "GPU busy %",
            _RX: "GPU receives over PCIe, MB/s",
            _TX: "GPU sends over PCIe, MB/s",
        }
        return [
            (title, [Curve(who, points) for who, points in self._points.get(name, {}).items()])
            for name, title in titles.items()
        ]


def _thousandth(value: float | None) -> float | None:
    return None if value is None else value / 1000
