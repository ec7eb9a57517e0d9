"""Parts of files of lines, by their places in bytes: at a bounded cost however long a file is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_WINDOW_BYTES = 1 << 20


@dataclass(frozen=True)
class PlacedLine:
    """A line without its end, and the place in the file that follows it."""

    text: str
    next: int


@dataclass(frozen=True)
class Window:
    """Whole lines from `begin` on. `next`: where to go on reading; `size`: the file's."""

    lines: tuple[PlacedLine, ...]
    begin: int
    next: int
    size: int


def read_window(path: Path, begin: int, most_lines: int) -> Window:
    """The lines from a place on, as many as a window holds. A line that is being written is left
    for later; one that is longer than a window comes in pieces. Nothing of a missing file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = min(begin, size)
            file.seek(begin)
            data = file.read(_WINDOW_BYTES)
    except FileNotFoundError:
        return Window((), 0, 0, 0)
    if b"\n" not in data and len(data) == _WINDOW_BYTES:
        piece = PlacedLine(data.decode("utf-8", "replace"), begin + len(data))
        return Window((piece,), begin, piece.next, size)
    lines: list[PlacedLine] = []
    for line in _placed(data, begin):
        if len(lines) == most_lines:
            break
        lines.append(line)
    return Window(tuple(lines), begin, lines[-1].next if lines else begin, size)


def read_last(path: Path, most_lines: int) -> Window:
    """The last whole lines, as many as a window holds."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - _WINDOW_BYTES)
            file.seek(begin)
            data = file.read(size - begin)
    except FileNotFoundError:
        return Window((), 0, 0, 0)
    lines = list(_placed(data, begin))
    if begin and lines:
        # What the window begins with may be the end of a line.
        begin = lines.pop(0).next
    end = lines[-1].next if lines else begin
    kept = lines[len(lines) - min(most_lines, len(lines)) :]
    first = lines[-len(kept) - 1].next if 0 < len(kept) < len(lines) else begin
    return Window(tuple(kept), first if kept else end, end, size)


def _placed(data: bytes, begin: int) -> Iterator[PlacedLine]:
    at = begin
    for line in data.split(b"\n")[:-1]:
        at += len(line) + 1
        yield PlacedLine(line.decode("utf-8", "replace"), at)
