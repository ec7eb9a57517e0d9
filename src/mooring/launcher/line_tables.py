"""Which line of the source an instruction belongs to: the three formats of CPython's line tables.

See Objects/lnotab_notes.txt (to 3.9 and 3.10) and Objects/locations.md (from 3.11) of CPython.
"""

from __future__ import annotations

_NO_LINE = -128


def line_of(minor: int, table: bytes, first_line: int, instruction: int) -> int:
    """`instruction` counts code units of two bytes; 0 if the table does not tell."""
    if instruction < 0:
        return first_line
    if minor >= 11:
        return _by_locations(table, first_line, instruction)
    if minor == 10:
        return _by_ranges(table, first_line, 2 * instruction)
    return _by_increments(table, first_line, 2 * instruction)


def _by_increments(table: bytes, line: int, offset: int) -> int:
    at = 0
    for place in range(0, len(table) - 1, 2):
        at += table[place]
        if at > offset:
            break
        line += _signed(table[place + 1])
    return line


def _by_ranges(table: bytes, line: int, offset: int) -> int:
    end = 0
    for place in range(0, len(table) - 1, 2):
        end += table[place]
        change = _signed(table[place + 1])
        has_line = change != _NO_LINE
        if has_line:
            line += change
        if offset < end:
            return line if has_line else 0
    return 0


def _by_locations(table: bytes, line: int, unit: int) -> int:
    at, end, place, size = 0, 0, 0, len(table)
    while place < size:
        code = (table[place] >> 3) & 15
        end += (table[place] & 7) + 1
        has_line = code != 15
        if code in (13, 14):
            line += _signed_varint(table, place + 1)
        elif 10 <= code <= 12:
            line += code - 10
        if at <= unit < end:
            return line if has_line else 0
        at = end
        place += 1
        # Only the first byte of an entry has its highest bit set.
        while place < size and not table[place] & 0x80:
            place += 1
    return 0


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _signed_varint(table: bytes, place: int) -> int:
    value = shift = 0
    while place < len(table):
        byte = table[place]
        value |= (byte & 63) << shift
        shift += 6
        place += 1
        if not byte & 64:
            break
    return -(value >> 1) if value & 1 else value >> 1
