"""GPUs in a report: means and peaks of what samples tell, and curves over time."""

from __future__ import annotations

from mooring.report.cards import CardCurves, CardFigures, Cards
from mooring.wire.samples import Card, Sample

GIB = 1 << 30
SAMPLES = [
    Sample(0.0, gpus={"0": Card(40, memory_bytes=8 * GIB, memory_used_bytes=2 * GIB)}),
    # PCIe rates come one card a sample in turn.
    Sample(
        1.0,
        gpus={"0": Card(60, rx_kbytes_per_s=3_000_000, tx_kbytes_per_s=0), "1": Card(10)},
    ),
    Sample(2.0, gpus={"0": Card(50, rx_kbytes_per_s=1_000_000, tx_kbytes_per_s=500)}),
    Sample(3.0),
]


def test_means_and_peaks() -> None:
    cards = Cards()
    for sample in SAMPLES:
        cards.add(sample)
    # 40, 60 and 50 %; 3 and 1 GB/s in, 0 and 0.5 MB/s out.
    assert list(cards.figures("worker-0")) == [
        CardFigures("worker-0", "0", 50.0, 2 * GIB, 8 * GIB, 2000.0, 0.25, 3000.0, 0.5),
        CardFigures("worker-0", "1", 10.0, 0, 0, None, None, None, None),
    ]


def test_curves_over_time() -> None:
    curves = CardCurves()
    for sample in SAMPLES:
        curves.add("worker-0", sample.t, sample)
    found = {title: {one.name: one.points for one in ones} for title, ones in curves.charts()}
    assert found == {
        "GPU busy %": {
            "worker-0 GPU 0": [(0.0, 40.0), (1.0, 60.0), (2.0, 50.0)],
            "worker-0 GPU 1": [(1.0, 10.0)],
        },
        "GPU receives over PCIe, MB/s": {"worker-0 GPU 0": [(1.0, 3000.0), (2.0, 1000.0)]},
        "GPU sends over PCIe, MB/s": {"worker-0 GPU 0": [(1.0, 0.0), (2.0, 0.5)]},
    }
