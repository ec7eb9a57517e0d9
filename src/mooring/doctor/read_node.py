"""This machine, or the container that we are in, to facts.

The launcher does the reading (affinity, control groups of both versions, shared memory): what the
doctor says of a place is then what a member there would find.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mooring.backends.local.pack import build_launcher
from mooring.doctor.facts import CpuClock, NodeFacts
from mooring.model.errors import RunFailed

_LOOK_TIMEOUT_S = 30
#: What container engines and the kubelet leave in every container.
_MARKS = ("/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io")


def read_node(python: str = sys.executable) -> NodeFacts:
    """Raises RunFailed if the launcher cannot be started here."""
    told = _look(python)
    budget = _mapping(told, "budget")
    sources = _mapping(budget, "sources")
    return NodeFacts(
        name=os.uname().nodename,
        online_cpus=_whole(told, "online_cpus") or 1,
        allowed_cpus=frozenset(_list(budget, "cpus")),
        cpuset_cpus=_whole(sources, "cpuset"),
        quota_millis=_whole(sources, "quota_millis"),
        throttled_periods=_whole(told, "nr_throttled") or 0,
        periods=_whole(told, "nr_periods") or 0,
        in_container=any(Path(mark).exists() for mark in _MARKS),
        thread_env={name: str(text) for name, text in _mapping(told, "thread_env").items()},
        memory_limit_bytes=_whole(sources, "memory_limit_bytes"),
        memory_used_bytes=_whole(told, "memory_used_bytes"),
        shm_bytes=_whole(told, "shm_bytes") or None,
        shm_used_bytes=_whole(told, "shm_used_bytes") or 0,
        clocks=tuple(_clocks(told)),
        gpus=_whole(told, "gpus") or 0,
        nvml_error=str(told.get("gpu_error") or ""),
    )


def _look(python: str) -> Mapping[str, object]:
    with tempfile.TemporaryDirectory(prefix="mooring-look-") as folder:
        launcher = build_launcher(Path(folder) / "launcher.pyz")
        answer = subprocess.run(
            [python, "-I", "-S", str(launcher), "look"],
            capture_output=True,
            text=True,
            timeout=_LOOK_TIMEOUT_S,
            check=False,
        )
    try:
        told = json.loads(answer.stdout)
    except ValueError:
        raise RunFailed(f"cannot look at this machine: {answer.stderr.strip()[-200:]}") from None
    return told if isinstance(told, dict) else {}


def _clocks(told: Mapping[str, object]) -> list[CpuClock]:
    clocks = told.get("clocks")
    return [CpuClock(**clock) for clock in clocks] if isinstance(clocks, list) else []


def _mapping(told: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = told.get(name)
    return value if isinstance(value, dict) else {}


def _whole(told: Mapping[str, object], name: str) -> int | None:
    value = told.get(name)
    return value if isinstance(value, int) else None


def _list(told: Mapping[str, object], name: str) -> list[int]:
    value = told.get(name)
    return value if isinstance(value, list) else []
