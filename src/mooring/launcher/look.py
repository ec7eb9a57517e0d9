"""What this machine or container allows, as one line of JSON: nothing is started or changed.

The same reading of affinity, control groups and shared memory as a member's budget, for whoever
asks about a place before a job runs there.
"""

from __future__ import annotations

import json
import os

from . import budget, cgroups, gpus, own, sample

_CLOCKS = "/sys/devices/system/cpu/cpu%d/cpufreq/"
_THREADS = sorted(budget.thread_env(1))


def main() -> int:
    groups = cgroups.find()
    held = budget.read(groups, None, None, None, 1)
    used, size = sample.shared_memory()
    throttled = cgroups.throttling(groups["cpu"]) if "cpu" in groups else None
    _, held_back, periods = throttled or (0.0, 0, 0)
    cards = gpus.find(None)
    document = {
        "gpus": len(cards.measure()) if cards is not None else 0,
        "gpu_error": cards.error if cards is not None else "",
        "budget": held.record(),
        "online_cpus": own.online_cpus() or os.cpu_count() or len(held.cpus),
        "nr_throttled": held_back,
        "nr_periods": periods,
        "memory_used_bytes": cgroups.memory_used(groups["memory"]) if "memory" in groups else None,
        "shm_used_bytes": used,
        "shm_bytes": size,
        "thread_env": {name: os.environ[name] for name in _THREADS if name in os.environ},
        "clocks": [clock for clock in map(_clock, held.cpus) if clock is not None],
    }
    os.write(1, json.dumps(document).encode("ascii") + b"\n")
    return 0


def _clock(cpu: int, folder: str = _CLOCKS) -> dict[str, object] | None:
    governor = _read(folder % cpu + "scaling_governor")
    if not governor:
        return None
    clock: dict[str, object] = {"cpu": cpu, "governor": governor}
    for key, name in (("now_mhz", "scaling_cur_freq"), ("most_mhz", "cpuinfo_max_freq")):
        text = _read(folder % cpu + name)
        if text.isdigit():
            clock[key] = int(text) / 1000.0
    return clock


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
