"""Where a program or a shared library has its exported symbols, from its ELF tables.

Only what 64-bit little-endian Linux needs. Files come from others: every size is checked, and what
does not look right has no symbols.
"""

from __future__ import annotations

import mmap
import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_LOAD = 1
_SHT_DYNSYM = 11
_MOST_SECTIONS = 200
_MOST_SYMBOLS = 200000


class Symbols:
    """`values`: name -> address as linked; `lowest`: the address of the file's first byte."""

    def __init__(self, values: dict[str, int], lowest: int) -> None:
        self.values = values
        self.lowest = lowest


def read_symbols(path: str, names: list[str]) -> Symbols | None:
    """Those of `names` that the file at `path` exports; None if it is no such file."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data, names)
    except (OSError, ValueError, struct.error):
        return None


def _read(data: mmap.mmap, names: list[str]) -> Symbols | None:
    ident, _, _, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, _ = (
        _HEADER.unpack_from(data, 0)
    )
    if ident[:6] != b"\x7fELF\x02\x01" or shnum > _MOST_SECTIONS:
        return None
    if shentsize < _SECTION.size or phentsize < _PROGRAM.size:
        return None
    lowest = None
    for number in range(phnum):
        kind, _, offset, address, _, _, _, _ = _PROGRAM.unpack_from(
            data, phoff + number * phentsize
        )
        if kind == _PT_LOAD and (lowest is None or address - offset < lowest):
            lowest = address - offset
    sections = [_SECTION.unpack_from(data, shoff + n * shentsize) for n in range(shnum)]
    values: dict[str, int] = {}
    for section in sections:
        if section[1] == _SHT_DYNSYM and section[6] < shnum:
            strings = sections[section[6]]
            _search(data, section[4], section[5], strings[4], strings[5], names, values)
    return Symbols(values, lowest or 0) if values else None


def _search(
    data: mmap.mmap,
    at: int,
    size: int,
    strings_at: int,
    strings_size: int,
    names: list[str],
    values: dict[str, int],
) -> None:
    wanted = {}
    for name in names:
        # Linkers may let one name be the end of another: only whole ones begin after a NUL.
        place = data.find(
            b"\0" + name.encode("ascii") + b"\0", strings_at, strings_at + strings_size
        )
        if place >= 0:
            wanted[place + 1 - strings_at] = name
    if not wanted:
        return
    count = min(size // _SYMBOL.size, _MOST_SYMBOLS)
    for entry in _SYMBOL.iter_unpack(data[at : at + count * _SYMBOL.size]):
        if entry[0] in wanted and entry[4]:
            values[wanted[entry[0]]] = entry[4]
