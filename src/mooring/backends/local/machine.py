"""This machine as a node: its CPUs with cores, caches and NUMA cells, its memory and GPUs.

The topology comes from `lscpu` (util-linux reads /sys for us and knows its many shapes),
memory from psutil, devices from NVML. Where `lscpu` is missing (macOS), every CPU is its own
core in one cell.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import psutil

from mooring.model.cluster import Cpu, Gpu, Node

_PCI = Path("/sys/bus/pci/devices")
_LSCPU = ("lscpu", "-J", "-e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE")


def this_machine() -> Node:
    """The whole machine, restricted to the CPUs that this process may use."""
    cpus = _cpus()
    name = os.uname().nodename.split(".")[0] or "localhost"
    return Node(
        name=name,
        cpus=cpus,
        cpu_millis=1000 * len(cpus),
        memory_bytes=memory_limit_bytes(),
        gpus=_gpus(),
        address="127.0.0.1",
    )


def allowed_cpus() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def memory_limit_bytes() -> int:
    """Physical memory, or the limit of the container that we are in where that is less."""
    total = int(psutil.virtual_memory().total)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:  # noqa: PTH123 (a kernel file, not a path of ours)
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def _cpus() -> tuple[Cpu, ...]:
    allowed = allowed_cpus()
    found = [cpu for cpu in _listed_cpus() if cpu.id in allowed]
    if not found:
        found = [Cpu(id=cpu, core=cpu, l3=0, cell=0, socket=0) for cpu in allowed]
    return tuple(sorted(found, key=lambda cpu: cpu.id))


@lru_cache(maxsize=1)
def _listed_cpus() -> tuple[Cpu, ...]:
    """What `lscpu` lists; none without it. Asked once: hardware stays what it is."""
    if not shutil.which("lscpu"):
        return ()
    answer = subprocess.run(_LSCPU, capture_output=True, text=True, check=False, timeout=10)
    if answer.returncode != 0:
        return ()
    rows = json.loads(answer.stdout)["cpus"]
    return tuple(_cpu(row) for row in rows if row.get("online", True) is not False)


def _cpu(row: dict[str, object]) -> Cpu:
    caches = next((str(row[key]) for key in row if "l1d" in key or key == "cache"), "")
    last_cache = caches.split(":")[-1]
    cell = _number(row.get("node"))
    return Cpu(
        id=_number(row["cpu"]),
        core=_number(row.get("core")),
        l3=int(last_cache) if last_cache.isdigit() else cell,
        cell=cell,
        socket=_number(row.get("socket")),
    )


def _number(value: object) -> int:
    """lscpu prints `-` or null where the kernel does not say."""
    return value if isinstance(value, int) else int(value) if str(value).isdigit() else 0  # type: ignore[call-overload]


def _gpus() -> tuple[Gpu, ...]:
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        gpus = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = pynvml.nvmlDeviceGetName(handle)
            memory_bytes = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
            gpus.append(Gpu(index, _gpu_cell(handle), str(name), memory_bytes=memory_bytes))
        return tuple(gpus)
    finally:
        pynvml.nvmlShutdown()


def _gpu_cell(handle: object) -> int:
    """As sysfs says: NVML's own answer is for cards that are NUMA cells themselves."""
    import pynvml

    try:
        pci = pynvml.nvmlDeviceGetPciInfo(handle)
    except (pynvml.NVMLError, AttributeError):
        return 0
    return device_cell(_PCI / f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0")


def device_cell(folder: Path) -> int:
    """The NUMA cell of a device; the first where the machine does not say (-1)."""
    try:
        return max(0, int((folder / "numa_node").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0
