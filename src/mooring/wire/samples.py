"""Measurements of samples/MEMBER.jsonl: what a member used, as its launcher counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from mooring.wire.fields import item, object_of
from mooring.wire.record import MemberRecord
from mooring.wire.values import COUNTS, NUMBER, TEXT, WHOLE, WHOLES, map_of, pair_of, triple_of


@dataclass(frozen=True)
class Card:
    """One GPU, as its driver tells; what a card does not have is missing."""

    busy_percent: float | None = item(NUMBER, None, "of the time, a kernel ran", key="busy")
    memory_bytes: int | None = item(WHOLE, None, "all of its memory")
    memory_used_bytes: int | None = item(WHOLE, None, "in use")
    processes: int | None = item(WHOLE, None, "that use it")
    rx_kbytes_per_s: int | None = item(WHOLE, None, "over PCIe; of one card a sample, in turn")
    tx_kbytes_per_s: int | None = item(WHOLE, None, "over PCIe; of one card a sample, in turn")
    cell: int | None = item(WHOLE, None, "its NUMA cell")
    link_gen: int | None = item(WHOLE, None, "generation of its PCIe link")
    link_width: int | None = item(WHOLE, None, "lanes of its PCIe link")


@dataclass(frozen=True)
class Sample(MemberRecord):
    """Totals since the attempt began, of everything below the launcher; and the present state."""

    kind: ClassVar[str] = "sample"
    cpu_s: float = item(NUMBER, 0.0, "user and system time")
    wait_s: float | None = item(NUMBER, None, "threads ready to run without a CPU, summed")
    ctx_vol: int = item(WHOLE, 0, "voluntary context switches")
    ctx_invol: int = item(WHOLE, 0, "involuntary context switches")
    rss_bytes: int = item(WHOLE, 0, "resident memory")
    peak_rss_bytes: int = item(
        WHOLE,
        0,
        "of the largest process that has ended, by the kernel's count; missing where that was "
        "smaller than the launcher",
    )
    threads: int = item(WHOLE, 0, "now")
    processes: int = item(WHOLE, 0, "now")
    last_cpus: Mapping[str, int] = item(
        COUNTS, MappingProxyType({}), "CPU → threads last seen on it"
    )
    cpus: tuple[int, ...] = item(WHOLES, (), "those that its processes may run on")
    throttled_s: float = item(NUMBER, 0.0, "held back by its CPU quota")
    nr_throttled: int = item(WHOLE, 0, "periods in which it was")
    nr_periods: int = item(WHOLE, 0, "periods of the quota")
    shm_bytes: int = item(WHOLE, 0, "size of /dev/shm")
    shm_used_bytes: int = item(WHOLE, 0, "in use there")
    rx_bytes: int = item(WHOLE, 0, "received on its TCP sockets")
    tx_bytes: int = item(WHOLE, 0, "sent on its TCP sockets")
    peers: Mapping[str, tuple[int, int]] = item(
        map_of(pair_of("sent, received")),
        MappingProxyType({}),
        "member → bytes on its TCP sockets; `other` for the rest",
    )
    launcher_cpu_s: float = item(NUMBER, 0.0, "CPU time of the launcher itself")
    interval_s: float | None = item(NUMBER, None, "until the next sample")
    gpus: Mapping[str, Card] = item(
        map_of(object_of(Card)), MappingProxyType({}), "with an NVIDIA driver: card → its figures"
    )
    gpu_error: str = item(TEXT, "", "why that driver does not answer")
    cells: Mapping[str, int] = item(
        COUNTS,
        MappingProxyType({}),
        "now and then, with several NUMA cells: cell → bytes of anonymous and shared memory",
    )
    nics: Mapping[str, tuple[int, int, int]] = item(
        map_of(triple_of("cell, sent, received")),
        MappingProxyType({}),
        "network card whose NUMA cell is known → bytes on TCP sockets",
    )
