"""Amounts of CPU, memory and devices, and the quantities that users write for them.

Quantities follow Kubernetes (`500m`, `4Gi`, `1e3`), because the same job file is later sent
to a cluster unchanged. CPU is kept in thousandths, memory in bytes: integers add up exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

_QUANTITY = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([eE][+-]?\d{1,3}|[KMGTPE]i|[numkMGTPE])?", re.ASCII
)
_FACTOR = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    **{unit + "i": Decimal(1024) ** (power + 1) for power, unit in enumerate("KMGTPE")},
}
#: Kubernetes keeps quantities below 2^63 - 1; so do we, so that a file means the same in both.
_LARGEST = Decimal(2**63 - 1)
_LONGEST_TEXT = 64


def parse_quantity(text: str) -> Decimal:
    """The value of a Kubernetes quantity. Raises ValueError for what is none."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise ValueError("not a quantity")
    number, suffix = match.group(1), match.group(2) or ""
    try:
        if suffix in _FACTOR:
            value = Decimal(number) * _FACTOR[suffix]
        else:
            value = Decimal(number + suffix)
    except InvalidOperation as error:
        raise ValueError("not a quantity") from error
    if abs(value) > _LARGEST:
        raise ValueError("too large")
    return value


def format_cpu(cpu_millis: int) -> str:
    """`1500` -> `1500m`, `2000` -> `2`."""
    return str(cpu_millis // 1000) if cpu_millis % 1000 == 0 else f"{cpu_millis}m"


def format_memory(memory_bytes: int) -> str:
    """The largest binary unit that divides the amount exactly; otherwise two decimals."""
    for power in range(6, 0, -1):
        unit = 1024**power
        if memory_bytes >= unit and memory_bytes % unit == 0:
            return f"{memory_bytes // unit}{'KMGTPE'[power - 1]}i"
    for power in range(6, 0, -1):
        unit = 1024**power
        if memory_bytes >= unit:
            return f"{memory_bytes / unit:.2f}{'KMGTPE'[power - 1]}i"
    return str(memory_bytes)


def format_gpus(gpu_millis: int) -> str:
    """`2000` -> `2`, `250` -> `0.25`."""
    return f"{Decimal(gpu_millis) / 1000:f}" if gpu_millis % 1000 else str(gpu_millis // 1000)


#: Resources without a domain that are counted as those with one.
HUGE_PAGES = "hugepages-"
STORAGE = "ephemeral-storage"


def is_extended(name: object) -> bool:
    """Can it only be meant as an extended resource?"""
    return isinstance(name, str) and ("/" in name or name.startswith(HUGE_PAGES) or name == STORAGE)


#: Names with whole numbers, in the order of the names.
Counts = tuple[tuple[str, int], ...]


def counts(amounts: Mapping[str, int] | Iterable[tuple[str, int]]) -> Counts:
    """In the order of the names and without zeros, so that equal amounts are equal."""
    pairs = amounts.items() if isinstance(amounts, Mapping) else amounts
    return tuple(sorted((name, count) for name, count in pairs if count))


def _combined(some: Counts, others: Counts, sign: int) -> Counts:
    if not some and not others:
        return ()
    total = dict(some)
    for name, count in others:
        total[name] = total.get(name, 0) + sign * count
    return counts(total)


@dataclass(frozen=True)
class Resources:
    """What one member asks for, or what a node has: exact integers, never negative.

    `gpu_share_millis` is what is beyond whole GPUs: a member asks for whole ones or for a share of
    one, a sum may be both. 1000 of it are a GPU.
    """

    cpu_millis: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    gpu_share_millis: int = field(default=0, kw_only=True)
    extended: Counts = field(default=(), kw_only=True)
    """Other resources that are counted whole (`example.com/fpga`), by name, none of them 0."""

    def __post_init__(self) -> None:
        if not 0 <= self.gpu_share_millis < 1000:
            whole, rest = divmod(self.gpu_millis, 1000)
            object.__setattr__(self, "gpus", whole)
            object.__setattr__(self, "gpu_share_millis", rest)
        if self.extended:
            object.__setattr__(self, "extended", counts(self.extended))
        if min(self.cpu_millis, self.memory_bytes, self.gpus) < 0 or any(
            count < 0 for _, count in self.extended
        ):
            raise ValueError(f"resources cannot be negative: {self}")

    @property
    def gpu_millis(self) -> int:
        return 1000 * self.gpus + self.gpu_share_millis

    def count(self, name: str) -> int:
        """How many of an extended resource."""
        return next((count for known, count in self.extended if known == name), 0)

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_millis + other.cpu_millis,
            self.memory_bytes + other.memory_bytes,
            self.gpus + other.gpus,
            extended=_combined(self.extended, other.extended, 1),
            gpu_share_millis=self.gpu_share_millis + other.gpu_share_millis,
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_millis - other.cpu_millis,
            self.memory_bytes - other.memory_bytes,
            self.gpus - other.gpus,
            extended=_combined(self.extended, other.extended, -1),
            gpu_share_millis=self.gpu_share_millis - other.gpu_share_millis,
        )

    def fits_in(self, room: Resources) -> bool:
        return (
            self.cpu_millis <= room.cpu_millis
            and self.memory_bytes <= room.memory_bytes
            and all(count <= room.count(name) for name, count in self.extended)
            and self.gpu_millis <= room.gpu_millis
        )

    def __str__(self) -> str:
        parts = []
        if self.cpu_millis:
            parts.append(f"{format_cpu(self.cpu_millis)} cpu")
        if self.memory_bytes:
            parts.append(format_memory(self.memory_bytes))
        if self.gpu_millis:
            parts.append(f"{format_gpus(self.gpu_millis)} gpu")
        parts += [f"{count} {name}" for name, count in self.extended]
        return ", ".join(parts) or "nothing"
