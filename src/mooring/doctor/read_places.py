"""Where a member's memory and cards are, and what its cards did, out of its samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import mean

from mooring.doctor.facts import CardTraffic, GpuFacts
from mooring.model.numbers import whole_number
from mooring.wire.samples import Card, Sample

#: MB/s of one lane in one direction, by generation: transfers a second less the line coding
#: (8b/10b up to the second, 128b/130b up to the fifth, flits with error correction in the sixth).
_LANE_MBYTES_PER_S = {1: 250.0, 2: 500.0, 3: 985.0, 4: 1969.0, 5: 3938.0, 6: 7563.0}


def read_cells(samples: Sequence[Sample]) -> dict[int, int]:
    """NUMA cell -> bytes, as the last look told; launchers look rarely."""
    cells = next((sample.cells for sample in reversed(samples) if sample.cells), {})
    return {
        number: amount
        for cell, amount in cells.items()
        if (number := whole_number(cell)) is not None
    }


def read_nics(samples: Sequence[Sample]) -> Iterator[CardTraffic]:
    """What went through each network card between the first and the last that tell of it."""
    telling = [sample for sample in samples if sample.nics]
    if len(telling) < 2 or (span_s := telling[-1].t - telling[0].t) <= 0:
        return
    for name, (cell, sent, received) in telling[-1].nics.items():
        _, sent_before, received_before = telling[0].nics.get(name, (cell, 0, 0))
        yield CardTraffic(
            name,
            cell,
            max(0, received - received_before) * 8 / 1e6 / span_s,
            max(0, sent - sent_before) * 8 / 1e6 / span_s,
        )


def read_cards(samples: Sequence[Sample]) -> Iterator[GpuFacts]:
    """Each card of the samples: means of what it did, and where it is."""
    seen: dict[str, list[Card]] = {}
    for sample in samples:
        for index, card in sample.gpus.items():
            seen.setdefault(index, []).append(card)
    for index, cards in sorted(seen.items()):
        received = _mean(card.rx_kbytes_per_s for card in cards)
        sent = _mean(card.tx_kbytes_per_s for card in cards)
        processes = [card.processes for card in cards if card.processes is not None]
        yield GpuFacts(
            index=whole_number(index) or 0,
            busy_percent=_mean(card.busy_percent for card in cards),
            memory_bytes=int(_mean(card.memory_bytes for card in cards) or 0),
            memory_used_bytes=int(_mean(card.memory_used_bytes for card in cards) or 0),
            rx_mbytes_per_s=None if received is None else received / 1000,
            tx_mbytes_per_s=None if sent is None else sent / 1000,
            link_mbytes_per_s=_link(cards[-1]),
            processes=max(processes) if processes else None,
            cell=cards[-1].cell,
        )


def _mean(values: Iterable[float | None]) -> float | None:
    """Of those that there are."""
    there = [value for value in values if value is not None]
    return mean(there) if there else None


def _link(card: Card) -> float | None:
    lane = _LANE_MBYTES_PER_S.get(card.link_gen or 0)
    return lane * card.link_width if lane is not None and card.link_width else None
