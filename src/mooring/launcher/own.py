"""Whether the CPUs of a member in a pod are its alone, judged by what it really holds.

Only the kubelet can give them. From inside a container nothing tells its policy, but its result
shows: a set of as many CPUs as were asked for, which is not the whole node.
"""

from __future__ import annotations

from . import cgroups

_ONLINE = "/sys/devices/system/cpu/online"


def judge(
    exclusive: bool, cpu_millis: int | None, held: int, online: int | None
) -> tuple[bool, str]:
    """(they are its own, why they are not although they should be)"""
    if not exclusive:
        return False, ""
    asked = (cpu_millis or 0) // 1000
    if not asked or (cpu_millis or 0) % 1000:
        return False, "only whole CPUs can be exclusive, and it asks for %gm" % (cpu_millis or 0)
    if online is not None and held >= online:
        if asked >= online:
            return False, "it holds every CPU of the node, so nobody can tell"
        return False, "it holds all %d CPUs of the node: its kubelet does not pin" % online
    if held != asked:
        return False, "it holds %d CPUs, not the %d it asks for: the kubelet's shared ones" % (
            held,
            asked,
        )
    return True, ""


def online_cpus(path: str = _ONLINE) -> int | None:
    """How many CPUs the node runs; None where it does not say."""
    try:
        with open(path, encoding="ascii") as file:
            return len(cgroups.parse_list(file.read())) or None
    except (OSError, ValueError):
        return None
