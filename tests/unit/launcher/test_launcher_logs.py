"""The log: lines cut from any stream of bytes, and a disk that may be full."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.launcher.logs import LONGEST_LINE_BYTES, LineCutter, LogFile


def cut(*pieces: bytes) -> list[bytes]:
    lines: list[bytes] = []
    cutter = LineCutter(lines.extend)
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


class Disk:
    """Takes `room` more bytes and is full then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr(os, "write", self)

    def __call__(self, fd: int, data: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = self._write(fd, data[: self.room])
        self.room -= size
        return size


#: `2026-01-01T00:00:00.000000Z out 0 ` and the newline.
HEAD_BYTES = 35


def texts(path: Path) -> list[str]:
    return [line.partition("Z ")[2] for line in path.read_text().splitlines()]


def test_lost_lines_are_owned_up_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogFile(str(tmp_path / "log"))
    disk = Disk(monkeypatch, 10)
    log.write("out", 0, [b"torn"])
    log.write("out", 0, [b"lost", b"lost too"])
    disk.room = 10_000
    log.write("out", 0, [b"kept"])
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines[0]) == 10
    assert lines[1].endswith("err 0 [mooring] 3 lines lost: No space left on device")
    assert lines[2].endswith("out 0 kept")
    assert len(lines) == 3
    assert log.lost == 3


@pytest.mark.parametrize(
    ("room", "written", "lost"),
    [
        (0, [], 3),
        (HEAD_BYTES + 3, ["out 0 one"], 2),
        (HEAD_BYTES + 3 + HEAD_BYTES, ["out 0 one", "out 0 t"], 2),
        (HEAD_BYTES + 3 + HEAD_BYTES + 3, ["out 0 one", "out 0 two"], 1),
        (1000, ["out 0 one", "out 0 two", "out 0 six"], 0),
    ],
)
def test_only_what_did_not_fit_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, written: list[str], lost: int
) -> None:
    log = LogFile(str(tmp_path / "log"))
    disk = Disk(monkeypatch, room)
    log.write("out", 0, [b"one", b"two", b"six"])
    assert log.lost == lost
    assert texts(tmp_path / "log") == written
    disk.room = 1000
    log.own_up()
    log.own_up()
    counted = f"{lost} line{'' if lost == 1 else 's'}"
    note = [f"err 0 [mooring] {counted} lost: No space left on device"] if lost else []
    assert texts(tmp_path / "log") == written + note


def test_what_was_owned_up_to_is_not_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogFile(str(tmp_path / "log"))
    disk = Disk(monkeypatch, 0)
    log.write("out", 0, [b"one", b"two"])
    note = "err 0 [mooring] 2 lines lost: No space left on device"
    disk.room = len("2026-01-01T00:00:00.000000Z ") + len(note) + 1
    log.write("out", 0, [b"six"])
    assert texts(tmp_path / "log") == [note]
    disk.room = 1000
    log.own_up()
    assert texts(tmp_path / "log")[1].startswith("err 0 [mooring] 1 line lost")
    assert log.lost == 3


def test_a_line_that_an_earlier_attempt_tore_is_closed_off(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"torn")
    LogFile(str(path)).write("out", 0, [b"whole"])
    LogFile(str(path)).write("out", 0, [b"whole"])
    first, *others = path.read_text().splitlines()
    assert first == "torn"
    assert [line.partition("Z ")[2] for line in others] == ["out 0 whole"] * 2
