"""Control groups for members, versions 1 and 2, where this process may make them.

A member's group gives four things: its CPU set and memory limit are enforced by the kernel, its
CPU weight follows its request (CPUs that were asked for go before those that were not), and every
process it ever forked can be found and ended. Groups are named mooring-TOKEN/MEMBER, below our own
group (version 1) or at the top (version 2, where a group that has processes cannot have children
with controllers).

Members that ask for no CPUs are scheduled together, in the run's group: where processes wake each
other at every step, a group of its own for each of them makes steps of parameter servers a fifth
slower (ADR 0051).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "mooring-"
_V2_CONTROLLERS = ("cpuset", "cpu", "memory")
_V1_CONTROLLERS = ("cpuset", "cpu", "memory", "freezer")
#: A process that asked for nothing weighs this much; the kernel accepts 2 to 262144.
_SHARES_OF_A_PROCESS = 1024
#: A CPU that was asked for, against processes that asked for none: nine tenths of it are the
#: member's while each CPU has one such neighbour.
_SHARES_PER_ASKED_CPU = 8 * _SHARES_OF_A_PROCESS
_MOST_SHARES = 262144
#: What version 2 gives a group that nobody has weighed, and the most that it accepts.
_DEFAULT_WEIGHT = 100
_MOST_WEIGHT = 10000


@dataclass(frozen=True)
class Limits:
    """What a group enforces; None leaves the kernel's default."""

    cpus: str | None
    cells: str | None
    cpu_millis: int | None
    memory_bytes: int | None


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made: one folder for version 2, one a controller for version 1."""

    version: int
    roots: dict[str, Path]


def find_hierarchy(
    mounts: Path = Path("/proc/self/mounts"), own: Path = Path("/proc/self/cgroup")
) -> Hierarchy | None:
    """The hierarchy that we may use, or None. Version 2 counts only if it has controllers."""
    try:
        mounted = [line.split() for line in mounts.read_text().splitlines()]
        ours = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    for fields in mounted:
        if fields[2] == "cgroup2":
            root = Path(fields[1])
            with suppress(OSError):
                available = (root / "cgroup.controllers").read_text().split()
                if set(_V2_CONTROLLERS) <= set(available) and _may_write(root):
                    return Hierarchy(2, {"": root})
    roots: dict[str, Path] = {}
    for fields in mounted:
        if fields[2] != "cgroup":
            continue
        options = fields[3].split(",")
        for controller in _V1_CONTROLLERS:
            if controller in options:
                place = next((o[2] for o in ours if controller in o[1].split(",")), "/")
                folder = Path(fields[1]) / place.lstrip("/")
                # In a container the path of /proc/self/cgroup may lie outside of the mount.
                roots[controller] = folder if folder.is_dir() else Path(fields[1])
    usable = {name: folder for name, folder in roots.items() if _may_write(folder)}
    return Hierarchy(1, usable) if "cpuset" in usable and "memory" in usable else None


def _may_write(folder: Path) -> bool:
    return os.geteuid() == 0 and os.access(folder, os.W_OK)


class RunGroups:
    """The groups of one run."""

    def __init__(self, hierarchy: Hierarchy, token: str) -> None:
        self._hierarchy = hierarchy
        self._token = token
        self._tops = [root / f"{PREFIX}{token}" for root in hierarchy.roots.values()]
        self._shares: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._weighs_members = True

    def expect(self, cpu_millis: Iterable[int]) -> None:
        """What the members of the run ask for, before the first group is made.

        In version 2 either all members' groups have a CPU weight, or none.
        """
        self._weighs_members = any(cpu_millis)

    def make(self, member: str, limits: Limits) -> list[str]:
        """A fresh group for one attempt; the files to which its first process writes its pid."""
        joins = []
        for controller, root in self._hierarchy.roots.items():
            top = root / f"{PREFIX}{self._token}"
            if not top.is_dir():
                top.mkdir()
                self._open_top(controller, root, top)
            if controller in ("", "cpu"):
                self._weigh_top(top, member, limits)
            group = top / member
            if controller == "cpu" and not limits.cpu_millis:
                group = top
            else:
                group.mkdir(exist_ok=True)
            if self._hierarchy.version == 2:
                _limit_v2(group, limits)
            else:
                _limit_v1(controller, group, limits)
            joins.append(str(group / "cgroup.procs"))
        return joins

    def _open_top(self, controller: str, root: Path, top: Path) -> None:
        if self._hierarchy.version == 2:
            wanted = [f"+{name}" for name in _V2_CONTROLLERS]
            (root / "cgroup.subtree_control").write_text(" ".join(wanted))
            if not self._weighs_members:
                wanted.remove("+cpu")
            (top / "cgroup.subtree_control").write_text(" ".join(wanted))
        elif controller == "cpuset":
            # A new cpuset of version 1 is empty, and nothing can join an empty one.
            for file in ("cpuset.cpus", "cpuset.mems"):
                (top / file).write_text((root / file).read_text())

    def _weigh_top(self, top: Path, member: str, limits: Limits) -> None:
        """The run weighs what its members weigh together.

        Otherwise all of them would get no more than one single process beside the group. In
        version 2 its neighbours are groups, too: a run that asks for nothing weighs as one of them.
        """
        self._shares[member] = _shares(limits)
        if self._hierarchy.version == 1:
            (top / "cpu.shares").write_text(str(min(_MOST_SHARES, sum(self._shares.values()))))
            return
        self._asked[member] = _weight(limits) if limits.cpu_millis else 0
        weight = max(_DEFAULT_WEIGHT, sum(self._asked.values()))
        (top / "cpu.weight").write_text(str(min(_MOST_WEIGHT, weight)))

    def move(self, member: str, cpus: str) -> None:
        """Give a running member other CPUs."""
        for controller, root in self._hierarchy.roots.items():
            if controller in ("", "cpuset"):
                with suppress(OSError):
                    (root / f"{PREFIX}{self._token}" / member / "cpuset.cpus").write_text(cpus)

    def pids(self, member: str) -> set[int]:
        found: set[int] = set()
        for top in self._tops:
            found |= set(_pids(top / member))
        return found

    def kill(self, member: str) -> None:
        """SIGKILL everything in a member's group."""
        for top in self._tops:
            kill_group(top / member)

    def remove(self, member: str) -> bool:
        """Remove a member's group; False while something still lives in it."""
        removed = [_remove(top / member) for top in self._tops]
        return all(removed)

    def close(self) -> None:
        for top in self._tops:
            remove_tree(top)


def left_tokens() -> dict[str, list[Path]]:
    """Run token -> its groups that exist on this machine."""
    hierarchy = find_hierarchy()
    found: dict[str, list[Path]] = {}
    for root in hierarchy.roots.values() if hierarchy else ():
        for folder in root.glob(f"{PREFIX}*"):
            found.setdefault(folder.name[len(PREFIX) :], []).append(folder)
    return found


def remove_tree(top: Path) -> None:
    """End what lives in a run's groups and remove them."""
    if not top.is_dir():
        return
    for group in sorted(top.iterdir()):
        if group.is_dir():
            kill_group(group)
            _remove(group)
    kill_group(top)
    _remove(top)


def kill_group(group: Path) -> None:
    kill_file = group / "cgroup.kill"
    if kill_file.exists():
        with suppress(OSError):
            kill_file.write_text("1")
            return
    # A fork may escape one reading of the list, never all of them: its parent is killed too.
    for _ in range(100):
        pids = list(_pids(group))
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _pids(group: Path) -> Iterator[int]:
    try:
        text = (group / "cgroup.procs").read_text()
    except OSError:
        return
    for line in text.split():
        # 0 stands for a process of another pid namespace.
        if line != "0":
            yield int(line)


def _remove(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _shares(limits: Limits) -> int:
    """A member that asks for nothing weighs as much as any process."""
    if not limits.cpu_millis:
        return _SHARES_OF_A_PROCESS
    wanted = limits.cpu_millis * _SHARES_PER_ASKED_CPU // 1000
    return max(2, min(wanted, _MOST_SHARES))


def _weight(limits: Limits) -> int:
    """The same for version 2, where a process that asked for nothing is in a group of 100."""
    weight = _shares(limits) * _DEFAULT_WEIGHT // _SHARES_OF_A_PROCESS
    return max(1, min(weight, _MOST_WEIGHT))


def _limit_v2(group: Path, limits: Limits) -> None:
    if limits.cpus is not None:
        (group / "cpuset.cpus").write_text(limits.cpus)
    if limits.cells:
        (group / "cpuset.mems").write_text(limits.cells)
    if limits.cpu_millis:
        (group / "cpu.weight").write_text(str(_weight(limits)))
    if limits.memory_bytes:
        (group / "memory.max").write_text(str(limits.memory_bytes))


def _limit_v1(controller: str, group: Path, limits: Limits) -> None:
    parent = group.parent
    if controller == "cpuset":
        cpus = limits.cpus if limits.cpus is not None else (parent / "cpuset.cpus").read_text()
        (group / "cpuset.cpus").write_text(cpus)
        (group / "cpuset.mems").write_text(limits.cells or (parent / "cpuset.mems").read_text())
    elif controller == "cpu" and limits.cpu_millis:
        (group / "cpu.shares").write_text(str(_shares(limits)))
    elif controller == "memory" and limits.memory_bytes:
        (group / "memory.limit_in_bytes").write_text(str(limits.memory_bytes))
