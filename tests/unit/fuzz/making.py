"""Inputs that nobody would write: good ones with their structure or their bytes changed.

One number makes one input, so that a finding can be made again from it.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import yaml

_LARGEST = 200_000

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**30, 1e308, -1e308, 1e-320,
    float("nan"), float("inf"), float("-inf"), 0.5, "", " ", "0", "-1", "1e9999", "9" * 400,
    "x" * 5000, "\x00", "\x1b[2J\x07", "[/red]", "\ud800", "a\nb\r\nc", "../../etc/passwd", "/",
    "١٢", "1Gi", "1e300Gi", "-5m", "500m", "5s", "null", "true", "{}", "[]", "worker-0", "worker",
    [], {}, [[]], [None], {"": None}, {"a": {"b": []}}, [0] * 300, ["worker-0"] * 40,
    {str(number): number for number in range(200)},
]  # fmt: skip
TOKENS: list[bytes] = [
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\n---\n", b"\t",
    b" " * 2000,
    b"[" * 3000, b"{" * 3000, b'{"a":' * 2000, b"- " * 2000, b"9" * 5000, b"-", b".", b"e", b":",
    b'"', b"'", b"&a [*a]", b"*a", b"<<: *a", b"!!python/object/apply:os.system [id]",
    b"!!binary x",
    b"NaN", b"Infinity", b"\\ud800", b"\\u0000", b"\x1b]0;x\x07", b"#", b"%", b"|", b">", b"? ",
    b"2026-11-18", b"0x1", b"1_000", b"~", b"=", b",", b";", b"$(x)", b"{{x}}", b"\xe2\x80\xae",
]  # fmt: skip


def deep(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


def make(seeds: Sequence[bytes], number: int) -> bytes:
    """The input of this number."""
    chance = Random(number)
    kind = chance.random()
    if kind < 0.05 or not seeds:
        return chance.randbytes(chance.choice((0, 1, 3, 20, 300)))
    seed = chance.choice(seeds)
    if kind < 0.6:
        try:
            changed = _of_structure(seed, chance)
        except RecursionError:
            changed = b"[" * 5000
        if changed is not None:
            whole = chance.random() < 0.9
            return changed[:_LARGEST] if whole else _of_bytes(changed, seeds, chance)
    return _of_bytes(seed, seeds, chance)


def _of_structure(seed: bytes, chance: Random) -> bytes | None:
    """With some of its values exchanged, if it is JSON, lines of JSON, or YAML."""
    lines = seed.splitlines()
    if len(lines) > 1 and all(line.startswith(b"{") for line in lines[:3]):
        picked = chance.randrange(len(lines))
        for _ in range(chance.choice((1, 1, 3))):
            changed = _of_structure(lines[picked], chance)
            lines[picked] = changed if changed is not None else lines[picked]
            picked = chance.randrange(len(lines))
        return b"\n".join(lines) + b"\n"
    data = _loaded(seed)
    if not isinstance(data, dict | list):
        return None
    data = copy.deepcopy(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = _changed(data, chance)
    return json.dumps(data).encode()


@functools.lru_cache(maxsize=256)
def _loaded(seed: bytes) -> Any:
    try:
        return json.loads(seed)
    except ValueError:
        pass
    try:
        return yaml.safe_load(seed)
    except (yaml.YAMLError, UnicodeDecodeError):
        return None


def _changed(data: Any, chance: Random) -> Any:
    places: list[tuple[Any, Any]] = []
    waiting = [data] if isinstance(data, dict | list) else []
    while waiting:
        below = waiting.pop()
        keys = list(below) if isinstance(below, dict) else range(len(below))
        for key in keys:
            places.append((below, key))
            if isinstance(below[key], dict | list):
                waiting.append(below[key])
    if not places:
        return chance.choice(VALUES)
    holder, key = chance.choice(places)
    what: Callable[[Any, Any, Random, list[tuple[Any, Any]]], None]
    what = chance.choice((_exchange, _exchange, _exchange, _remove, _add, _copy, _nest, _repeat))
    what(holder, key, chance, places)
    return data


def _exchange(holder: Any, key: Any, chance: Random, _: object) -> None:
    holder[key] = copy.deepcopy(chance.choice(VALUES))


def _remove(holder: Any, key: Any, _: Random, __: object) -> None:
    del holder[key]


def _add(holder: Any, _: Any, chance: Random, __: object) -> None:
    value = copy.deepcopy(chance.choice(VALUES))
    if isinstance(holder, list):
        holder.insert(chance.randrange(len(holder) + 1), value)
    else:
        holder[chance.choice(("a", "", "name", "kind", "spec", "\x00", "x" * 300))] = value


def _copy(holder: Any, key: Any, chance: Random, places: list[tuple[Any, Any]]) -> None:
    other, at = chance.choice(places)
    holder[key] = copy.deepcopy(other[at])


def _nest(holder: Any, key: Any, chance: Random, _: object) -> None:
    holder[key] = deep(chance.choice((3, 30, 120, 400)))


def _repeat(holder: Any, key: Any, chance: Random, _: object) -> None:
    if isinstance(holder[key], list):
        holder[key] = (holder[key] * chance.choice((2, 20)))[:2000]
    elif isinstance(holder[key], str):
        holder[key] = (holder[key] * chance.choice((2, 50)))[:20_000]
    elif isinstance(holder[key], int | float):
        holder[key] = holder[key] * chance.choice((-1, 0, 10**6, 10**18))


def _of_bytes(seed: bytes, seeds: Sequence[bytes], chance: Random) -> bytes:
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 3, 20, 200)))
        kind = chance.randrange(6)
        if kind == 0:
            del data[at:end]
        elif kind == 1:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 2:
            data[at:end] = chance.randbytes(end - at)
        elif kind == 3:
            data[at:at] = data[at:end] * chance.choice((2, 50))
        elif kind == 4:
            other = chance.choice(seeds)
            begin = chance.randrange(len(other) + 1)
            data[at:end] = other[begin : begin + chance.choice((5, 50, 500))]
        else:
            del data[chance.choice((at, len(data) // 2)) :]
    return bytes(data[:_LARGEST])
