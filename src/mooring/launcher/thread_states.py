"""What one thread does at this moment, as the kernel tells: state, system call and its files.

/proc/PID/task/TID/syscall has the call of a thread that is not running; it needs the right to
trace. Where it may not be read, wchan (where in the kernel the thread sleeps) tells less.
"""

from __future__ import annotations

import os
import struct

from . import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    ReadMemory = Callable[[int, int], bytes]

# Calls by what they mean here; numbers from the kernel's tables (stable ABI).
_X86 = {
    0: "read", 17: "read", 19: "read", 295: "read", 1: "write", 18: "write", 20: "write",
    296: "write", 7: "poll", 271: "poll", 23: "select", 270: "select", 232: "epoll", 281: "epoll",
    441: "epoll", 202: "futex", 449: "futex", 35: "sleep", 230: "sleep", 34: "sleep",
    45: "recv", 47: "recv", 299: "recv", 44: "send", 46: "send", 307: "send", 40: "send",
    42: "connect", 43: "accept", 288: "accept", 61: "wait", 247: "wait", 74: "fsync", 75: "fsync",
    26: "fsync", 277: "fsync", 2: "open", 257: "open", 262: "open", 4: "open", 78: "open",
    217: "open", 16: "ioctl", 73: "lock", 72: "lock", 24: "yield", 426: "uring", 220: "futex",
    9: "memory", 10: "memory", 11: "memory", 28: "memory", 12: "memory",
}  # fmt: skip
_ARM = {
    63: "read", 65: "read", 67: "read", 69: "read", 64: "write", 66: "write", 68: "write",
    70: "write", 73: "poll", 72: "select", 22: "epoll", 441: "epoll", 98: "futex", 449: "futex",
    101: "sleep", 115: "sleep", 207: "recv", 212: "recv", 243: "recv", 206: "send", 211: "send",
    269: "send", 71: "send", 203: "connect", 202: "accept", 242: "accept", 260: "wait", 95: "wait",
    82: "fsync", 83: "fsync", 227: "fsync", 84: "fsync", 56: "open", 79: "open", 61: "open",
    29: "ioctl", 32: "lock", 25: "lock", 124: "yield", 426: "uring", 192: "futex", 222: "memory",
    226: "memory", 215: "memory", 233: "memory", 214: "memory",
}  # fmt: skip
_CALLS = {"x86_64": _X86, "aarch64": _ARM}.get(os.uname().machine, {})
_BY_PLACE = (
    ("nanosleep", "sleep"), ("futex", "futex"), ("ep_poll", "epoll"), ("poll", "poll"),
    ("select", "select"), ("wait_for_data", "recv"), ("recv", "recv"), ("tcp_send", "send"),
    ("sk_stream_wait", "send"), ("pipe_read", "pipe"), ("pipe_write", "pipe"), ("do_wait", "wait"),
    ("io_schedule", "read"), ("folio", "read"), ("nfs", "read"),
)  # fmt: skip
#: Calls whose first argument is the file that they wait for.
_ON_FILE = frozenset(
    ["read", "write", "recv", "send", "connect", "accept", "fsync", "ioctl", "lock"]
)
_MOST_FILES = 64
_POLLED = struct.Struct("<ihh")


class State:
    """`letter` R, S, D…; `call` is empty for a thread that runs; `files`: what it waits at."""

    __slots__ = ("call", "files", "letter")

    def __init__(self, letter: str, call: str, files: list[int]) -> None:
        self.letter, self.call, self.files = letter, call, files


def read_letter(pid: int, tid: int) -> State | None:
    """Its state alone; None if the thread has ended."""
    fields = procfs.stat_fields(procfs.read("/proc/%d/task/%d/stat" % (pid, tid)))
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    return State(fields[0].decode("ascii", "replace"), "", [])


def read_state(pid: int, tid: int, read_memory: ReadMemory | None) -> State | None:
    """None if the thread has ended. `read_memory(address, size)`: empty where it cannot."""
    folder = "/proc/%d/task/%d/" % (pid, tid)
    fields = procfs.stat_fields(procfs.read(folder + "stat"))
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    letter = fields[0].decode("ascii", "replace")
    if letter == "R":
        return State(letter, "", [])
    words = procfs.read(folder + "syscall").split()
    if not words:
        return State(letter, _by_place(folder), [])
    if words[0] == b"running":
        return State("R", "", [])
    try:
        number = int(words[0])
        arguments = [int(word, 16) for word in words[1:7]] if number >= 0 else []
    except ValueError:
        return State(letter, "", [])
    if number < 0:
        # Not in a call: a page that is being fetched, or about to run again.
        return State(letter, "fault" if letter == "D" else "", [])
    call = _CALLS.get(number, "other")
    return _with_files(State(letter, call, []), arguments, pid, read_memory)


def _by_place(folder: str) -> str:
    place = procfs.read(folder + "wchan").decode("ascii", "replace")
    return next((call for part, call in _BY_PLACE if part in place), "other" if place else "")


def _with_files(
    state: State, arguments: list[int], pid: int, read_memory: ReadMemory | None
) -> State:
    if len(arguments) < 2:
        return state
    if state.call in _ON_FILE:
        state.files = [arguments[0]]
    elif state.call == "epoll":
        state.files = _in_epoll(pid, arguments[0])
    elif state.call == "poll":
        state.files = _polled(arguments[0], arguments[1], read_memory)
        if not arguments[1]:
            state.call = "sleep"
    elif state.call == "select":
        state.files = _selected(arguments[0], arguments[1:3], read_memory)
        if not arguments[0]:
            state.call = "sleep"
    return state


def _in_epoll(pid: int, number: int) -> list[int]:
    files: list[int] = []
    for line in procfs.read_long("/proc/%d/fdinfo/%d" % (pid, number), 1 << 16).splitlines():
        if line.startswith(b"tfd:"):
            words = line.split()
            if len(words) > 1 and words[1].isdigit() and len(files) < _MOST_FILES:
                files.append(int(words[1]))
    return files


def _polled(address: int, count: int, read_memory: ReadMemory | None) -> list[int]:
    count = min(count, _MOST_FILES)
    data = read_memory(address, count * _POLLED.size) if read_memory and count else b""
    numbers = [entry[0] for entry in _POLLED.iter_unpack(data)] if data else []
    return [number for number in numbers if number >= 0]


def _selected(count: int, sets: list[int], read_memory: ReadMemory | None) -> list[int]:
    files: list[int] = []
    size = (min(count, 1024) + 63) // 64 * 8
    for address in sets:
        data = read_memory(address, size) if read_memory and address and size else b""
        bits = int.from_bytes(data, "little")
        files += [number for number in range(size * 8) if bits >> number & 1]
    return files[:_MOST_FILES]
