"""Where a member's memory and cards are, and what its cards did, out of its samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import mean

from mooring.doctor.facts import CardTraffic, GpuFacts
from mooring.doctor.told import mapping, number, numbers, whole
from mooring.model.numbers import whole_number
from mooring.record.journal import JsonValue, Line

#: MB/s of one lane in one direction, by generation: transfers a second less the line coding
#: (8b/10b up to the second, 128b/130b up to the fifth, flits with error correction in the sixth).
_LANE_MBYTES_PER_S = {1: 250.0, 2: 500.0, 3: 985.0, 4: 1969.0, 5: 3938.0, 6: 7563.0}


def read_cells(samples: list[Line]) -> dict[int, int]:
    """NUMA cell -> bytes, as the last look told; launchers look rarely."""
    told = next((cells for one in reversed(samples) if (cells := mapping(one, "cells"))), {})
    return {
        int(cell): amount
        for cell, amount in told.items()
        if whole_number(cell) is not None and isinstance(amount, int)
    }


def read_nics(samples: list[Line]) -> Iterator[CardTraffic]:
    """What went through each network card between the first and the last that tell of it."""
    told = [sample for sample in samples if mapping(sample, "nics")]
    if len(told) < 2 or (span_s := number(told[-1], "t") - number(told[0], "t")) <= 0:
        return
    first, last = mapping(told[0], "nics"), mapping(told[-1], "nics")
    for name in last:
        # [cell, sent, received]
        end, begin = numbers(last, name), numbers(first, name)
        if len(end) == 3:
            begin = begin if len(begin) == 3 else [end[0], 0, 0]
            sent, received = (max(0, end[i] - begin[i]) * 8 / 1e6 / span_s for i in (1, 2))
            yield CardTraffic(name, end[0], received, sent)


def read_cards(samples: list[Line]) -> Iterator[GpuFacts]:
    """Each card of the samples: means of what it did, and where it is."""
    seen: dict[str, list[Mapping[str, JsonValue]]] = {}
    for sample in samples:
        cards = mapping(sample, "gpus")
        for index in cards:
            seen.setdefault(index, []).append(mapping(cards, index))
    for index, told in sorted(seen.items()):

        def middle(name: str, told: list[Mapping[str, JsonValue]] = told) -> float | None:
            known = [number(one, name) for one in told if name in one]
            return mean(known) if known else None

        rx, tx = middle("rx_kbytes_per_s"), middle("tx_kbytes_per_s")
        processes = [whole(one, "processes") or 0 for one in told if "processes" in one]
        yield GpuFacts(
            index=whole_number(index) or 0,
            busy_percent=middle("busy"),
            memory_bytes=int(middle("memory_bytes") or 0),
            memory_used_bytes=int(middle("memory_used_bytes") or 0),
            rx_mbytes_per_s=None if rx is None else rx / 1000,
            tx_mbytes_per_s=None if tx is None else tx / 1000,
            link_mbytes_per_s=_link(told[-1]),
            processes=max(processes) if processes else None,
            cell=whole(told[-1], "cell"),
        )


def _link(card: Mapping[str, JsonValue]) -> float | None:
    lane = _LANE_MBYTES_PER_S.get(whole(card, "link_gen") or 0)
    width = whole(card, "link_width")
    return lane * width if lane is not None and width else None
