"""What the control groups of this process allow and count, in cgroup v1 and v2.

Limits are looked for from the process's own group up to the mount point, because any ancestor
binds too. In a container the path in /proc/self/cgroup may be the host's while only a part of the
hierarchy is mounted; mountinfo says which part.
"""

from __future__ import annotations

import os

# v1 writes "no limit" as the largest multiple of the page size that fits a signed 64-bit number.
_UNLIMITED_BYTES = 1 << 60


class ControlGroup:
    """One hierarchy's directory for this process, and its ancestors up to the mount point."""

    def __init__(self, version: int, mount: str, path: str) -> None:
        self.version = version
        self.chain = [path]
        while path != mount and len(path) > len(mount):
            path = os.path.dirname(path)
            self.chain.append(path)

    @property
    def path(self) -> str:
        return self.chain[0]


def find(proc: str = "/proc") -> dict[str, ControlGroup]:
    """Controller name -> group. A controller that v1 does not hold is looked for in v2."""
    groups: dict[str, ControlGroup] = {}
    unified = None
    paths: dict[str, str] = {}
    for line in _read(proc + "/self/cgroup").splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            for controller in fields[1].split(","):
                paths[controller] = fields[2]
    for line in _read(proc + "/self/mountinfo").splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if not separator or len(fields) < 5 or len(kind) < 3:
            continue
        root, mount = _unescape(fields[3]), _unescape(fields[4])
        if kind[0] == "cgroup2" and "" in paths:
            unified = ControlGroup(2, mount, _below(mount, root, paths[""]))
        elif kind[0] == "cgroup":
            for controller in kind[2].split(","):
                if controller in paths and controller not in groups:
                    groups[controller] = ControlGroup(
                        1, mount, _below(mount, root, paths[controller])
                    )
    if unified is not None:
        for controller in ("cpu", "cpuset", "memory"):
            groups.setdefault(controller, unified)
    return groups


def quota_millis(group: ControlGroup) -> int | None:
    """The tightest CPU quota in thousandths of a CPU, or None."""
    found = [quota for path in group.chain if (quota := _quota(group.version, path))]
    return min(found) if found else None


def _quota(version: int, path: str) -> int | None:
    if version == 2:
        fields = _read(path + "/cpu.max").split()
        quota, period = (fields[0], fields[1]) if len(fields) == 2 else ("max", "")
    else:
        quota = _read(path + "/cpu.cfs_quota_us").strip()
        period = _read(path + "/cpu.cfs_period_us").strip()
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return max(1, int(quota) * 1000 // int(period))
    return None


def cpuset(group: ControlGroup) -> list[int] | None:
    """The CPUs that the group may use, or None where the hierarchy does not say."""
    for path in group.chain:
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            text = _read(path + "/" + name).strip()
            if text:
                return parse_list(text)
    return None


def memory_limit(group: ControlGroup) -> int | None:
    """The tightest memory limit in bytes, or None."""
    name = "/memory.max" if group.version == 2 else "/memory.limit_in_bytes"
    found = []
    for path in group.chain:
        text = _read(path + name).strip()
        if text.isdigit() and int(text) < _UNLIMITED_BYTES:
            found.append(int(text))
    return min(found) if found else None


def memory_used(group: ControlGroup) -> int | None:
    """What the nearest group with a limit holds in memory, without what it could drop at once."""
    name = "/memory.max" if group.version == 2 else "/memory.limit_in_bytes"
    usage = "/memory.current" if group.version == 2 else "/memory.usage_in_bytes"
    for path in group.chain:
        limit = _read(path + name).strip()
        if limit.isdigit() and int(limit) < _UNLIMITED_BYTES:
            used = _read(path + usage).strip()
            cache = _field(path + "/memory.stat", "inactive_file")
            total_cache = _field(path + "/memory.stat", "total_inactive_file")
            droppable = total_cache if total_cache is not None else cache or 0
            return max(0, int(used) - droppable) if used.isdigit() else None
    return None


def oom_kills(group: ControlGroup) -> int:
    """How many processes of the group were killed for going over its memory limit."""
    name = "/memory.events" if group.version == 2 else "/memory.oom_control"
    return _field(group.path + name, "oom_kill") or 0


def throttling(group: ControlGroup) -> tuple[float, int, int] | None:
    """(seconds held back, periods held back, periods) of the nearest group that has a quota.

    None where nothing counts. The seconds are summed over the CPUs that the group was on.
    """
    holds = next((path for path in group.chain if _quota(group.version, path)), group.path)
    path = holds + "/cpu.stat"
    periods = _field(path, "nr_throttled")
    if periods is None:
        return None
    of_all = _field(path, "nr_periods") or 0
    if group.version == 2:
        return (_field(path, "throttled_usec") or 0) / 1e6, periods, of_all
    return (_field(path, "throttled_time") or 0) / 1e9, periods, of_all


def parse_list(text: str) -> list[int]:
    """`0-2,5` -> [0, 1, 2, 5], the kernel's way to write sets of CPUs and cells."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if first.isdigit():
            numbers.extend(range(int(first), int(last if dash else first) + 1))
    return numbers


def _below(mount: str, root: str, path: str) -> str:
    """Where `path` of the hierarchy is seen when only `root` and below is mounted at `mount`."""
    if root != "/":
        if path != root and not path.startswith(root + "/"):
            return mount
        path = path[len(root) :]
    if "/.." in path:
        return mount
    joined = mount.rstrip("/") + "/" + path.strip("/")
    joined = joined.rstrip("/")
    return joined if os.path.isdir(joined) else mount


def _unescape(text: str) -> str:
    for escaped, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escaped, plain)
    return text


def _field(path: str, name: str) -> int | None:
    for line in _read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return None


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
