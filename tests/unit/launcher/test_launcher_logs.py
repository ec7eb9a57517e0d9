"""The log: lines cut from any stream of bytes, and a disk that may be full."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.launcher.logs import LONGEST_LINE_BYTES, Lines, LogFile


def cut(*pieces: bytes) -> list[bytes]:
    lines: list[bytes] = []
    cutter = Lines(lines.extend)
    for piece in pieces:
        cutter.feed(piece)
    cutter.close()
    return lines


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b", b"\nc"], [b"ab", b"c"]),
        ([b"\n\n"], [b"", b""]),
        ([b"a\r\nb\r\n"], [b"a", b"b"]),
        ([b"a\r", b"\nb"], [b"a", b"b"]),
        ([b"10%\r20%\r", b"30%\n"], [b"10%", b"20%", b"30%"]),
        ([b"\xff\xfe\n"], ["��".encode()]),
        ([b"\xc3", b"\xa9\n"], ["é".encode()]),
        ([], []),
    ],
)
def test_lines(pieces: list[bytes], lines: list[bytes]) -> None:
    assert cut(*pieces) == lines


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_a_very_long_line_is_split(ending: bytes) -> None:
    lines = cut(b"x" * (2 * LONGEST_LINE_BYTES + 10) + ending)
    assert [len(line) for line in lines] == [LONGEST_LINE_BYTES, LONGEST_LINE_BYTES, 10]


def test_a_long_line_is_not_split_inside_a_character() -> None:
    text = "x" + "é" * LONGEST_LINE_BYTES
    lines = cut(text.encode())
    assert "".join(line.decode() for line in lines) == text
    assert max(map(len, lines)) <= LONGEST_LINE_BYTES


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_where_the_pieces_end_makes_no_difference(data: bytes, ends: list[int]) -> None:
    bounds = [0, *sorted(ends), len(data)]
    pieces = [data[start:end] for start, end in pairwise(bounds)]
    assert cut(*pieces) == cut(data)


def test_lines_carry_time_stream_and_rank(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"))
    log.write("out", 3, [b"one", b"two"])
    log.note(0, "said by the launcher")
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "out 3 one",
        "out 3 two",
        "err 0 [mooring] said by the launcher",
    ]
    assert all(len(line.split(" ")[0]) == len("2026-01-01T00:00:00.000000Z") for line in lines)


def test_lost_lines_are_owned_up_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogFile(str(tmp_path / "log"))
    real = os.write
    room = [10]

    def full(fd: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = min(room[0], len(data))
        room[0] -= size
        return real(fd, data[:size])

    monkeypatch.setattr(os, "write", full)
    log.write("out", 0, [b"torn"])
    log.write("out", 0, [b"lost", b"lost too"])
    room[0] = 10_000
    log.write("out", 0, [b"kept"])
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines[0]) == 10
    assert lines[1].endswith("err 0 [mooring] 3 lines lost: No space left on device")
    assert lines[2].endswith("out 0 kept")
    assert len(lines) == 3
