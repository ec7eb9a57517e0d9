"""This machine with another description of itself, for one command: files laid over /sys in a mount
namespace that only the command sees. Its processes, their memory and their CPUs are the real ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

root_only = pytest.mark.skipif(
    os.geteuid() != 0 or (os.cpu_count() or 1) < 2, reason="lays files over /sys; needs two CPUs"
)

_TWO_CELLS = Path(__file__).parents[2] / "benchmarks" / "jobs" / "two-cells.sh"
_CPUS = Path("/sys/devices/system/cpu")


def two_cells(cards: Mapping[str, int] | None = None, nic: str = "") -> list[str]:
    """What to put before a command: CPU 0 is a NUMA cell with an L3 cache of its own, the other
    CPUs are the second. `cards` are PCI devices with their cells, `nic` is one network interface:
    `NAME=HARDWARE ADDRESS=CELL`.
    """
    devices = " ".join(f"{name}={cell}" for name, cell in (cards or {}).items())
    return ["env", f"PCI={devices}", f"NIC={nic}", "sh", str(_TWO_CELLS)]


def without_groups() -> list[str]:
    """The same for a machine on which no control group holds a process to its CPUs."""
    return ["unshare", "-m", "sh", "-c", 'umount -R /sys/fs/cgroup; exec "$@"', "sh"]


def other_clocks(folder: Path, governor: str, now_mhz: int, most_mhz: int) -> list[str]:
    """The same for the clocks of all CPUs."""
    script = ["set -e"]
    files = {
        "scaling_governor": governor,
        "scaling_cur_freq": str(now_mhz * 1000),
        "cpuinfo_max_freq": str(most_mhz * 1000),
    }
    online = (_CPUS / "online").read_text()
    tree = folder / "cpus"
    _tree(tree, {"online": online.strip()})
    for cpu in sorted(os.sched_getaffinity(0)):
        _tree(tree / f"cpu{cpu}" / "cpufreq", files)
    script += [f"mount --bind {tree} {_CPUS}", 'exec "$@"']
    return ["unshare", "-m", "sh", "-c", "\n".join(script), "sh"]


def _tree(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return folder
