"""The system calls that Python 3.8 has no function for, through ctypes.

Numbers are from the kernel's uapi headers (linux/prctl.h, linux/sched.h, linux/mount.h,
linux/mempolicy.h) and are part of its stable ABI.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

AVAILABLE = sys.platform.startswith("linux")

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_PTRACER = 0x59616D61
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MPOL_PREFERRED = 1
MPOL_BIND = 2
MPOL_PREFERRED_MANY = 5
# set_mempolicy has no function in the C library, and its number differs by architecture.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "ppc64le": 261, "riscv64": 237}

# sched_setattr neither.
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "ppc64le": 355, "riscv64": 274}
_SCHED_FLAG_RESET_ON_FORK = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), "prctl")


def allow_watcher(pid: int) -> None:
    """Let `pid` and what it starts read this process, also after exec.

    Only Yama's mode 1 needs it (security/yama/yama_lsm.c): there a process may be read by its
    ancestors alone. Kernels without Yama do not know the call.
    """
    try:
        prctl(PR_SET_PTRACER, pid)
    except OSError:
        pass


def take_short_turns(slice_ns: int) -> None:
    """Ask the scheduler for short turns on a CPU, which then come sooner (Linux 6.12 and later).

    Who wakes for an instant is not made to wait until others have slept. Children do not inherit
    it. Elsewhere it changes nothing.
    """
    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is None:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
    attributes = struct.pack("=IIQiIQQQ", 48, 0, _SCHED_FLAG_RESET_ON_FORK, nice, 0, slice_ns, 0, 0)
    _libc.syscall(number, 0, attributes, 0)


def enter_network(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(fd, CLONE_NEWNET), path)
    finally:
        os.close(fd)


def own_hostname(name: str) -> None:
    """A host name that only this process and its children see."""
    _check(_libc.unshare(CLONE_NEWUTS), "UTS namespace")
    data = os.fsencode(name)
    _check(_libc.sethostname(data, len(data)), name)


def private_mounts() -> None:
    """A mount namespace of our own, from which nothing flows back to the machine's."""
    _check(_libc.unshare(CLONE_NEWNS), "mount namespace")
    _check(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "/")


def bind_mount(source: str, target: str) -> None:
    flags = ctypes.c_ulong(MS_BIND)
    _check(_libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None), target)


def set_memory_policy(mode: int, cells: list[int]) -> None:
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        raise OSError(38, "not known on this architecture", "set_mempolicy")
    bits = ctypes.sizeof(ctypes.c_ulong) * 8
    mask = (ctypes.c_ulong * (max(cells) // bits + 1))()
    for cell in cells:
        mask[cell // bits] |= 1 << (cell % bits)
    # The kernel takes one bit less than it is told (linux/mempolicy.c, get_nodes).
    size = ctypes.c_ulong(len(mask) * bits + 1)
    _check(_libc.syscall(number, mode, mask, size), "set_mempolicy")
