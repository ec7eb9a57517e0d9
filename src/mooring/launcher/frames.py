"""The Python frames of another process's threads, read from its memory while it runs.

Nothing is stopped and nothing is written: what is read may change meanwhile. So each pointer's
target is checked (a frame's code must be a code object, names must be text of a sensible length),
walks are bounded, and what does not look right ends the stack there: fewer frames, never an error.
Reading needs the right to trace, which a launcher has for what it started, in pods too.
"""

from __future__ import annotations

import os
import struct

from . import line_tables, procfs, pythons

_POINTER = struct.Struct("<Q")
_SIZE = struct.Struct("<q")
_INT = struct.Struct("<i")
_STATE = struct.Struct("<I")
_MOST_THREADS = 256
MOST_FRAMES = 96
_LONGEST_TEXT, _LONGEST_TABLE = 1024, 1 << 16
_MOST_KEPT = 4096
#: Where glibc keeps the kernel's number of a thread in its description, x86 and ARM of 64 bits.
_TID_AT = (720, 208, 216)
#: A frame that only marks where C called Python (3.12 and later).
_OF_C = 3


class PythonFrame:
    """One call: the source file, the function with its class, and the line."""

    __slots__ = ("file", "function", "line")

    def __init__(self, file: str, function: str, line: int) -> None:
        self.file, self.function, self.line = file, function, line


class _Torn(Exception):
    """What was read makes no sense: it changed, or is something else."""


class _Code:
    """A code object's description, with what shows that it is still the same one."""

    __slots__ = ("file", "first_line", "function", "lines", "mark", "table")

    def __init__(self, mark: bytes, file: str, function: str, first_line: int, table: bytes):
        self.mark, self.file, self.function = mark, file, function
        self.first_line, self.table = first_line, table
        self.lines: dict[int, int] = {}


class Reader:
    """Of one process; `runtime` is None where it is no Python that can be read."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._codes: dict[int, _Code] = {}
        self._native: dict[int, int] = {}
        self.runtime: pythons.PythonRuntime | None = None
        self.refused = False
        try:
            self._memory = os.open("/proc/%d/mem" % pid, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._memory = -1
            self.refused = isinstance(error, PermissionError)
            return
        self.runtime = pythons.find(pid, self._memory)

    def close(self) -> None:
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def read(self, address: int, size: int) -> bytes:
        """Memory of the process; empty where it cannot be read."""
        try:
            return self._read(address, size)
        except _Torn:
            return b""

    def threads(self) -> dict[int, int]:
        """Kernel's thread number -> address of Python's state of that thread."""
        found: dict[int, int] = {}
        if self.runtime is None:
            return found
        at = self.runtime.offsets
        try:
            head = self._pointer(self.runtime.address + at.interpreters)
            state = self._pointer(head + at.threads)
            last = 0
            for _ in range(_MOST_THREADS):
                if not state:
                    break
                tid = self._thread_number(state)
                if tid:
                    found[tid] = state
                last = state
                state = self._pointer(state + at.next_thread)
            # The first state that was made is the main thread's, and new ones come before it.
            if last and self._pid not in found:
                found[self._pid] = last
        except _Torn:
            pass
        return found

    def stack(self, state: int) -> list[PythonFrame]:
        """From the innermost call outwards; empty where nothing can be read."""
        frames: list[PythonFrame] = []
        if self.runtime is None:
            return frames
        at = self.runtime.offsets
        try:
            frame = self._pointer(state + at.thread_frame)
            if at.c_frame is not None and frame:
                frame = self._pointer(frame + at.c_frame)
            seen = 0
            while frame and seen < MOST_FRAMES:
                seen += 1
                data = self._read(frame, 112)
                code = _POINTER.unpack_from(data, at.frame_code)[0]
                if at.frame_owner is None or data[at.frame_owner] != _OF_C:
                    frames.append(self._frame(code, data))
                frame = _POINTER.unpack_from(data, at.frame_back)[0]
        except (_Torn, struct.error, IndexError):
            pass
        return frames

    def _thread_number(self, state: int) -> int:
        assert self.runtime is not None
        at = self.runtime.offsets
        if at.native_id is not None:
            return self._pointer(state + at.native_id)
        assert at.thread_id is not None
        handle = self._pointer(state + at.thread_id)
        if handle not in self._native:
            if len(self._native) > _MOST_KEPT:
                self._native.clear()
            self._native[handle] = self._number_of_handle(handle)
        return self._native[handle]

    def _number_of_handle(self, handle: int) -> int:
        """Python before 3.11 knows only the C library's handle: the address of its description."""
        tids = {int(name) for name in procfs.names("/proc/%d/task" % self._pid)}
        try:
            data = self._read(handle, 768)
        except _Torn:
            return 0
        for place in _TID_AT:
            number: int = _INT.unpack_from(data, place)[0]
            if number in tids:
                return number
        return 0

    def _frame(self, address: int, frame: bytes) -> PythonFrame:
        assert self.runtime is not None
        at, minor = self.runtime.offsets, self.runtime.minor
        code = self._code(address)
        if at.code_start is not None:
            unit = (_POINTER.unpack_from(frame, at.frame_at)[0] - address - at.code_start) // 2
        else:
            unit = _INT.unpack_from(frame, at.frame_at)[0]
            unit = unit if minor == 10 else unit // 2
        line = code.lines.get(unit)
        if line is None:
            if len(code.lines) > _MOST_KEPT:
                code.lines.clear()
            line = line_tables.line_of(minor, code.table, code.first_line, unit)
            code.lines[unit] = line
        return PythonFrame(code.file, code.function, line)

    def _code(self, address: int) -> _Code:
        assert self.runtime is not None
        at = self.runtime.offsets
        mark = self._read(address, 144)
        kept = self._codes.get(address)
        # Counts of references change at each call; names and tables do not.
        fixed = mark[16:]
        if kept is not None and kept.mark == fixed:
            return kept
        if _POINTER.unpack_from(mark, 8)[0] != self.runtime.code_type:
            raise _Torn
        code = _Code(
            fixed,
            self._text(_POINTER.unpack_from(mark, at.code_file)[0]),
            self._text(_POINTER.unpack_from(mark, at.code_name)[0]),
            _INT.unpack_from(mark, at.code_first_line)[0],
            self._bytes(_POINTER.unpack_from(mark, at.code_lines)[0]),
        )
        if len(self._codes) > _MOST_KEPT:
            self._codes.clear()
        self._codes[address] = code
        return code

    def _text(self, address: int) -> str:
        assert self.runtime is not None
        head = self._read(address, 40)
        length = _SIZE.unpack_from(head, 16)[0]
        state = _STATE.unpack_from(head, 32)[0]
        kind, compact, ascii_only = (state >> 2) & 7, (state >> 5) & 1, (state >> 6) & 1
        if not 0 <= length <= _LONGEST_TEXT or kind not in (1, 2, 4) or not compact:
            raise _Torn
        if not length:
            return ""
        at = self.runtime.offsets.text if ascii_only else self.runtime.offsets.wide_text
        data = self._read(address + at, length * kind)
        return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind], "replace")

    def _bytes(self, address: int) -> bytes:
        length = _SIZE.unpack_from(self._read(address + 16, 8), 0)[0]
        if not 0 <= length <= _LONGEST_TABLE:
            raise _Torn
        return self._read(address + 32, length) if length else b""

    def _pointer(self, address: int) -> int:
        value: int = _POINTER.unpack(self._read(address, 8))[0]
        return value

    def _read(self, address: int, size: int) -> bytes:
        try:
            data = os.pread(self._memory, size, address)
        except (OSError, OverflowError, ValueError):
            raise _Torn from None
        if len(data) != size:
            raise _Torn
        return data
