"""Amounts of resources as Kubernetes writes them."""

from __future__ import annotations

from functools import lru_cache

from mooring.backends.kubernetes.api.document import Json, Object
from mooring.model.resources import Resources, is_extended, parse_quantity

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")


#: Of one machine, and of one of its NUMA cells: Linux itself is built for at most so many CPUs.
MOST_CPUS = 8192
MOST_GPUS = 1024


def amounts(listed: Object) -> Resources:
    """CPU, memory, devices and extended resources of a resource list."""
    cpu = _quantity(listed.get("cpu"))
    gpus = sum(_quantity(listed.get(name)) for name in GPU_RESOURCES)
    extended = [
        (name, amount(written))
        for name, written in listed.items()
        if is_extended(name) and name not in GPU_RESOURCES
    ]
    memory = amount(listed.get("memory"))
    return Resources(-int(-cpu * 1000 // 1), memory, int(gpus), extended=tuple(extended))


def amount(value: Json) -> int:
    """A whole number of units, rounded down; 0 for what is no amount."""
    return int(_quantity(value))


def _quantity(value: Json) -> float:
    return _parsed(str(value)) if value is not None else 0.0


@lru_cache(maxsize=4096)
def _parsed(written: str) -> float:
    """Exact arithmetic is slow, and a cluster writes few different amounts."""
    try:
        return float(parse_quantity(written))
    except ValueError:
        return 0.0
