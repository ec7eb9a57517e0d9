"""Taking the slot: control groups, network, names, CPUs and memory cells, before anything starts.

All of it is inherited by the processes that the launcher starts, which is why the launcher does it
to itself. What the contract asks for and the machine refuses is an error; what merely cannot be
had here becomes a note that the report shows.
"""

from __future__ import annotations

import errno
import os

from . import cgroups
from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .contract import Contract

_HOSTS = "/etc/hosts"
_CELLS = "/sys/devices/system/node/online"


def enter(contract: Contract) -> tuple[dict[str, Any], list[str]]:
    """Returns how the CPUs that were given are held, as the journal tells it, and the notes."""
    notes: list[str] = []
    for path in contract.cgroup_procs:
        _join(path)
    if contract.netns is not None:
        _network(contract.netns)
    if contract.hosts_file is not None:
        _hosts(contract.hosts_file)
        _hostname("%s-%s" % (contract.job, contract.member))
    held: dict[str, Any] = {"cpus": "unpinned", "why_not": None, "given": []}
    if contract.cpus is not None:
        held["cpus"] = "exclusive" if contract.exclusive else "shared"
        held["why_not"] = _pin(contract.cpus, notes)
        held["given"] = contract.cpus
    if contract.cells:
        _bind_memory(contract.cells, notes)
    return held, notes


def _join(path: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"%d" % os.getpid())
        finally:
            os.close(fd)
    except OSError as error:
        raise LaunchError("cannot join control group %s: %s" % (path, error.strerror)) from error


def _network(path: str) -> None:
    from . import linux

    try:
        linux.enter_network(path)
    except OSError as error:
        raise LaunchError("cannot enter network %s: %s" % (path, error.strerror)) from error


def _hosts(path: str) -> None:
    from . import linux

    try:
        linux.private_mounts()
        linux.bind_mount(path, _HOSTS)
    except OSError as error:
        raise LaunchError(
            "cannot put %s in place of %s: %s" % (path, _HOSTS, error.strerror)
        ) from error


def _hostname(name: str) -> None:
    """Frameworks resolve their own host name (gloo does) and expect to be reached there."""
    from . import linux

    try:
        linux.own_hostname(name)
    except OSError as error:
        raise LaunchError("cannot take host name %s: %s" % (name, error.strerror)) from error


def _pin(cpus: list[int], notes: list[str]) -> str | None:
    """Why the launcher does not hold exactly these; None if it does."""
    if not hasattr(os, "sched_setaffinity"):
        notes.append("not pinned: this system has no CPU affinity")
        return "no-affinity"
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        why = error.strerror
        if error.errno == errno.EINVAL:
            why = "only %s are allowed here" % _written(sorted(os.sched_getaffinity(0)))
        raise LaunchError("cannot pin to CPUs %s: %s" % (_written(cpus), why)) from error
    held = sorted(os.sched_getaffinity(0))
    if held != sorted(set(cpus)):
        notes.append("asked for CPUs %s, holds %s" % (_written(cpus), _written(held)))
        return "other-cpus"
    return None


def _bind_memory(cells: list[int], notes: list[str]) -> None:
    try:
        with open(_CELLS, encoding="ascii") as file:
            online = cgroups.parse_list(file.read())
    except OSError:
        return
    if len(online) < 2:
        return
    from . import linux

    # "Preferred" spills to another cell under pressure where "bind" would have the process killed.
    # Kernels before 5.15 know it for one cell only.
    single = linux.MPOL_PREFERRED if len(cells) == 1 else linux.MPOL_BIND
    for mode in (linux.MPOL_PREFERRED_MANY, single):
        try:
            linux.set_memory_policy(mode, cells)
            return
        except OSError as error:
            failure = error
            if error.errno != errno.EINVAL:
                break
    notes.append("memory not bound to cells %s: %s" % (_written(cells), failure.strerror))


def _written(numbers: list[int]) -> str:
    return ",".join(str(number) for number in numbers)
