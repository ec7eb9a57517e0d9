"""A run as event files that TensorBoard reads, one folder a member; TensorFlow is not needed.

A file is a sequence of TFRecords, each a protobuf message `Event` (event.proto of TensorFlow) with
one scalar. There are few fields, and they are written by hand below.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from mooring.report.figures import Report
from mooring.report.series import MemberSeries

_VERSION = b"brain.Event:2"
_MEBIBYTE = 1 << 20
#: Wire types of protobuf: a number of variable length, eight bytes, so many bytes, four bytes.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MASK_DELTA = 0xA282EAD8

#: wall time, step, tag, value
Scalar = tuple[float, int, str, float]


def write_tensorboard(folder: Path, figures: Report, series: list[MemberSeries]) -> list[Path]:
    """Event files of each member that has something to show, in folders of their names.

    Raises OSError. What training reports is by step; what members use is by second of the run.
    """
    start_s = figures.started_s or 0.0
    written = []
    for each in series:
        scalars = sorted(_scalars(each, start_s))
        if not scalars:
            continue
        home = folder / each.member
        home.mkdir(parents=True, exist_ok=True)
        path = home / f"events.out.tfevents.{int(start_s)}.{figures.run}.mooring"
        with path.open("wb") as file:
            file.write(record(_event(scalars[0][0], 0, _field(3, _BYTES) + _sized(_VERSION))))
            for at_s, step, tag, value in scalars:
                file.write(record(_event(at_s, step, _summary(tag, value))))
        written.append(path)
    return written


def _scalars(series: MemberSeries, start_s: float) -> Iterator[Scalar]:
    steps = {each.at_s: each.step for each in series.steps}
    for each in series.steps:
        if each.loss is not None:
            yield each.at_s, each.step, "training/loss", each.loss
    for at_s, rate in series.examples_per_s():
        yield at_s, steps[at_s], "training/examples_per_s", rate
    used = {
        "use/cpu_percent": series.cpu_percent(),
        "use/memory_mib": [(at_s, value / _MEBIBYTE) for at_s, value in series.memory()],
        "use/received_mbit_per_s": [(at_s, 8e-6 * v) for at_s, v in series.received_per_s()],
        "use/sent_mbit_per_s": [(at_s, 8e-6 * v) for at_s, v in series.sent_per_s()],
    }
    for tag, points in used.items():
        for at_s, value in points:
            yield at_s, max(0, round(at_s - start_s)), tag, value


def _event(wall_time_s: float, step: int, what: bytes) -> bytes:
    """Event: wall_time = 1, step = 2, file_version = 3 or summary = 5."""
    head = _field(1, _FIXED64) + struct.pack("<d", wall_time_s)
    return head + _field(2, _VARINT) + _varint(step) + what


def _summary(tag: str, value: float) -> bytes:
    """Summary: repeated Value value = 1; Value: tag = 1, simple_value = 2."""
    one = _field(1, _BYTES) + _sized(tag.encode())
    one += _field(2, _FIXED32) + struct.pack("<f", value)
    return _field(5, _BYTES) + _sized(_field(1, _BYTES) + _sized(one))


def _field(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; negative numbers as 64 bits."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def record(data: bytes) -> bytes:
    """A TFRecord: length, its checksum, the data, its checksum."""
    length = struct.pack("<Q", len(data))
    checksum = struct.pack("<I", masked_crc32c(length))
    return length + checksum + data + struct.pack("<I", masked_crc32c(data))


def masked_crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), rotated and shifted as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _table() -> tuple[int, ...]:
    entries = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        entries.append(value)
    return tuple(entries)


_TABLE = _table()
