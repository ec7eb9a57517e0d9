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

_NODES = Path("/sys/devices/system/node")
_PCI = Path("/sys/bus/pci/devices")
_NET = Path("/sys/class/net")
_CPUS = Path("/sys/devices/system/cpu")


def two_cells(
    folder: Path, cards: Mapping[str, int] | None = None, nics: Mapping[str, tuple[str, int]] = {}
) -> list[str]:
    """What to put before a command: CPU 0 is a NUMA cell with an L3 cache of its own, the other
    CPUs are the second. `cards` are PCI devices with their cells, `nics` network interfaces with
    their hardware addresses and cells.

    Control groups are taken away: the kernel would not give out a cell that is not there.
    """
    rest = f"1-{last}" if (last := (os.cpu_count() or 2) - 1) > 1 else "1"
    nodes = {"online": "0-1", "possible": "0-1", "has_cpu": "0-1"}
    for cell, cpus, mask in ((0, "0", 1), (1, rest, (2 << last) - 2)):
        nodes |= {f"node{cell}/cpulist": cpus, f"node{cell}/cpumap": f"{mask:x}"}
    script = ["set -e", f"mount --bind {_tree(folder / 'nodes', nodes)} {_NODES}"]
    shares = _tree(folder / "caches", {"first": "1", "others": f"{(2 << last) - 2:x}"})
    for path in sorted(_CPUS.glob("cpu[0-9]*/cache/index3/shared_cpu_map")):
        which = "first" if path.parts[-4] == "cpu0" else "others"
        script.append(f"mount --bind {shares / which} {path}")
    if cards:
        devices = {f"{name}/numa_node": str(cell) for name, cell in cards.items()}
        script.append(f"mount --bind {_tree(folder / 'pci', devices)} {_PCI}")
    if nics:
        devices = {f"{name}/address": address for name, (address, _) in nics.items()}
        devices |= {f"{name}/device/numa_node": str(cell) for name, (_, cell) in nics.items()}
        script.append(f"mount --bind {_tree(folder / 'net', devices)} {_NET}")
    script += ["umount -R /sys/fs/cgroup 2>/dev/null || true", 'exec "$@"']
    return ["unshare", "-m", "sh", "-c", "\n".join(script), "sh"]


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
