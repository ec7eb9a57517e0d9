"""Members that share CPUs give way when another run takes some of them exclusively.

As the kubelet does with its shared pool: it shrinks under running containers and grows back.
Runs learn of each other through the time of the planning lock, so that looking costs one stat.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mooring.backends.local import cgroups, processes
from mooring.backends.local.machine import allowed_cpus
from mooring.backends.local.nodes import held_by_others
from mooring.model.cluster import format_cpus
from mooring.model.errors import BadInput
from mooring.record import plan_lock

_LOOK_EVERY_S = 0.5


class SharedCpus:
    """The CPUs of one run's sharing members, kept off what others hold exclusively."""

    def __init__(self, run_id: str, owner: str, groups: cgroups.RunGroups | None) -> None:
        self._run_id = run_id
        self._owner = owner
        self._groups = groups
        self._look_at_s = 0.0
        self._stamp: float | None = None
        self._taken: frozenset[int] = frozenset()
        self._given: dict[str, tuple[int, frozenset[int]]] = {}

    def update(self, held: Mapping[str, tuple[int, tuple[int, ...]]], now_s: float) -> None:
        """`held`: member -> (its launcher's pid, the CPUs of its slot)."""
        if not held or now_s < self._look_at_s:
            return
        self._look_at_s = now_s + _LOOK_EVERY_S
        try:
            stamp = plan_lock().stat().st_mtime
        except FileNotFoundError:
            return
        if stamp != self._stamp:
            self._stamp = stamp
            # What a run of a newer Mooring holds cannot be read: nobody moves then.
            with suppress(BadInput):
                self._taken = held_by_others(self._run_id).cpus
        for member, (pid, cpus) in held.items():
            # The brain leaves a CPU to those who share; if all are gone all the same, stay put.
            target = frozenset(cpus) & allowed_cpus() - self._taken or frozenset(cpus)
            before = self._given.get(member, (pid, frozenset(cpus)))
            if (pid, target) != before:
                self._move(member, target)
            self._given[member] = (pid, target)

    def _move(self, member: str, cpus: frozenset[int]) -> None:
        if self._groups is not None:
            self._groups.move(member, format_cpus(cpus))
        for process in processes.owned_processes(self._run_id, self._owner, member):
            with suppress(OSError):
                for thread in Path(f"/proc/{process.pid}/task").iterdir():
                    with suppress(OSError):
                        os.sched_setaffinity(int(thread.name), cpus)
