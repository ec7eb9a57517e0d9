"""What is around a run's members: the cards of its nodes, and the rest of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.doctor.facts import MachineFacts, NicFacts
from mooring.wire import read_journal
from mooring.wire.events import MachineUsed, NodeTraffic, Surroundings

#: Fewer samples than this say nothing about a rate.
LEAST_SAMPLES = 3
Window = tuple[float, float]


@dataclass(frozen=True)
class _Count:
    """A card's counters at one time; `busy_s` None in runs of before it was counted."""

    at_s: float
    received_bytes: float
    sent_bytes: float
    busy_s: float | None


def read_cards_of_nodes(events: Path, window: Window) -> tuple[NicFacts, ...]:
    """Rates of each node's card within the window, from the counters that the run noted."""
    limits: Mapping[str, int | None] = {}
    for surroundings in read_journal(events, Surroundings):
        limits = surroundings.nic_mbps
    seen: dict[str, list[_Count]] = {}
    for traffic in read_journal(events, NodeTraffic):
        for name, (received, sent) in traffic.moved_bytes.items():
            count = _Count(traffic.t, received, sent, traffic.busy_s.get(name))
            seen.setdefault(name, []).append(count)
    cards = []
    for name, counts in sorted(seen.items()):
        inside = [one for one in counts if window[0] <= one.at_s <= window[1]]
        inside = inside if len(inside) >= LEAST_SAMPLES else counts
        if inside[-1].at_s > inside[0].at_s:
            cards.append(_card(name, limits.get(name), inside))
    return tuple(cards)


def _card(name: str, limit_mbps: int | None, counts: list[_Count]) -> NicFacts:
    first, last = counts[0], counts[-1]
    span_s = last.at_s - first.at_s
    in_turns = None
    if first.busy_s is not None and last.busy_s is not None:
        in_turns = max(0.0, last.busy_s - first.busy_s) / span_s
    return NicFacts(
        name,
        limit_mbps,
        (last.received_bytes - first.received_bytes) * 8 / 1e6 / span_s,
        (last.sent_bytes - first.sent_bytes) * 8 / 1e6 / span_s,
        in_turns,
    )


def read_machine(events: Path, window: Window) -> MachineFacts | None:
    """From the totals that the run noted; None of a run of before they were."""
    points = list(read_journal(events, MachineUsed))
    inside = [point for point in points if window[0] <= point.t <= window[1]]
    inside = inside if len(inside) >= LEAST_SAMPLES else points
    if len(inside) < LEAST_SAMPLES:
        return None
    first, last = inside[0], inside[-1]
    span_s = last.t - first.t
    if span_s <= 0 or not last.cpus:
        return None
    used = max(0.0, last.cpu_s - first.cpu_s) / span_s
    return MachineFacts(last.cpus, used, last.available_bytes)
