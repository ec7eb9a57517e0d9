"""Where CPython keeps its threads and frames: the runtime's address in a process, and offsets.

From 3.13 on the runtime describes itself (`_Py_DebugOffsets`); for 3.8 to 3.12 the offsets are
those of the headers, which do not change within a minor version. They hold for 64-bit Linux.
"""

from __future__ import annotations

import os
import re
import struct

from . import elf, procfs

_RUNTIME, _CODE_TYPE, _VERSION = "_PyRuntime", "PyCode_Type", "Py_Version"
_NAME = re.compile(r"python3\.(\d+)")
_LEAST_MINOR, _MOST_MINOR = 8, 13
_COOKIE = b"xdebugpy"
_MOST_MAPS_BYTES = 4 << 20


class Offsets:
    """Where fields are; None where the version has no such field."""

    def __init__(
        self,
        interpreters: int,
        threads: int,
        next_thread: int,
        thread_frame: int,
        frame_code: int,
        frame_back: int,
        frame_at: int,
        code_file: int,
        code_name: int,
        code_first_line: int,
        code_lines: int,
        text: int = 40,
        wide_text: int = 56,
        native_id: int | None = None,
        thread_id: int | None = None,
        c_frame: int | None = None,
        frame_owner: int | None = None,
        code_start: int | None = None,
    ) -> None:
        self.interpreters, self.threads, self.next_thread = interpreters, threads, next_thread
        self.thread_frame, self.c_frame = thread_frame, c_frame
        self.native_id, self.thread_id = native_id, thread_id
        self.frame_code, self.frame_back, self.frame_at = frame_code, frame_back, frame_at
        self.frame_owner = frame_owner
        self.code_file, self.code_name, self.code_first_line = code_file, code_name, code_first_line
        self.code_lines, self.code_start = code_lines, code_start
        self.text, self.wide_text = text, wide_text


def _before_311(frame_at: int) -> Offsets:
    return Offsets(
        32, 8, 8, 24, 32, 24, frame_at, 104, 112, 40, 120, text=48, wide_text=72, thread_id=176
    )


_KNOWN = {
    8: _before_311(104),
    9: _before_311(104),
    10: _before_311(96),
    11: Offsets(
        40, 16, 8, 56, 32, 48, 56, 112, 128, 72, 136, text=48, wide_text=72,
        native_id=160, c_frame=8, frame_owner=69, code_start=184,
    ),
    12: Offsets(
        40, 72, 8, 56, 0, 8, 56, 112, 128, 68, 136,
        native_id=144, c_frame=0, frame_owner=70, code_start=192,
    ),
}  # fmt: skip


class PythonRuntime:
    """A process's CPython: its minor version, where its runtime is, and its offsets."""

    def __init__(self, minor: int, address: int, code_type: int, offsets: Offsets) -> None:
        self.minor, self.address, self.code_type = minor, address, code_type
        self.offsets = offsets


def find(pid: int, memory: int) -> PythonRuntime | None:
    """`memory`: /proc/PID/mem, open. None: no Python, or not one whose frames can be read."""
    for path, start in _candidates(pid):
        symbols = elf.read_symbols(
            "/proc/%d/root%s" % (pid, path), [_RUNTIME, _CODE_TYPE, _VERSION]
        )
        if symbols is None or _RUNTIME not in symbols.values or _CODE_TYPE not in symbols.values:
            continue
        base = start - symbols.lowest
        address = base + symbols.values[_RUNTIME]
        offsets, minor = None, _minor(path)
        try:
            if _VERSION in symbols.values:
                minor = _version(os.pread(memory, 8, base + symbols.values[_VERSION])) or minor
            head = os.pread(memory, 1024, address)
        except (OSError, OverflowError, ValueError):
            return None
        if head.startswith(_COOKIE):
            offsets = _described(head) if minor == _MOST_MINOR else None
        elif minor is not None:
            offsets = _KNOWN.get(minor)
        if offsets is None or minor is None:
            return None
        return PythonRuntime(minor, address, base + symbols.values[_CODE_TYPE], offsets)
    return None


def _candidates(pid: int) -> list[tuple[str, int]]:
    """(file, lowest address) of libpython if the process has one, then of the program itself."""
    lowest: dict[str, int] = {}
    for line in procfs.read_long("/proc/%d/maps" % pid, _MOST_MAPS_BYTES).splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith(b"/"):
            path = os.fsdecode(fields[5])
            start = int(fields[0].partition(b"-")[0], 16) - int(fields[2], 16)
            if path not in lowest:
                lowest[path] = start
    try:
        program = os.readlink("/proc/%d/exe" % pid)
    except OSError:
        program = ""
    found = [path for path in lowest if "/libpython3" in path]
    if program in lowest:
        found.append(program)
    return [(path, lowest[path]) for path in found]


def _minor(path: str) -> int | None:
    match = _NAME.search(os.path.basename(path))
    number = int(match.group(1)) if match else 0
    return number if _LEAST_MINOR <= number <= _MOST_MINOR else None


def _version(data: bytes) -> int | None:
    """Of `Py_Version`, 0x030B07F0 for 3.11.7."""
    if len(data) < 8:
        return None
    number = struct.unpack("<Q", data)[0]
    return (number >> 16) & 0xFF if number >> 24 == 3 else None


def _described(head: bytes) -> Offsets | None:
    """As `_Py_DebugOffsets` of 3.13 has them: numbers of 64 bits in a fixed order."""
    words = struct.unpack_from("<%dQ" % (len(head) // 8), head)
    free_threaded = words[2]
    # cookie, version, free_threaded | runtime 3 | interpreter 13 | thread 9 | frame 6 | code 10
    runtime, interpreter, thread, frame, code = 3, 6, 19, 28, 34
    if free_threaded or any(word > 1 << 20 for word in words[3:44]):
        return None
    return Offsets(
        interpreters=words[runtime + 2],
        threads=words[interpreter + 3],
        next_thread=words[thread + 2],
        thread_frame=words[thread + 4],
        frame_code=words[frame + 2],
        frame_back=words[frame + 1],
        frame_at=words[frame + 3],
        code_file=words[code + 1],
        code_name=words[code + 3],
        code_first_line=words[code + 5],
        code_lines=words[code + 4],
        native_id=words[thread + 6],
        frame_owner=words[frame + 5],
        code_start=words[code + 9],
    )
