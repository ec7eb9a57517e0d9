"""Inputs that did harm once, as small as they could be made: every run of the tests tries each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_SEEDS = Path(__file__).parent / "seeds"


def _node(**allocatable: Any) -> bytes:
    node = json.loads((_SEEDS / "cluster.json").read_text())["node"]
    node["status"]["allocatable"] |= allocatable
    return json.dumps(node).encode()


def _line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"t": 1.0, "kind": kind, "epoch": 0, "attempt": 0, **fields}).encode() + b"\n"


def _start(**fields: Any) -> bytes:
    start = json.loads((_SEEDS / "run/start.json").read_text())
    return json.dumps({**start, **fields}).encode()


_NAN = float("nan")

#: What it is: the entry point, and the bytes.
FOUND: dict[str, tuple[str, bytes]] = {
    # As many as a second and some hundred megabytes are enough for; 10¹⁸ would take all memory.
    "a node with millions of GPUs": ("node", _node(**{"nvidia.com/gpu": "3000000"})),
    "a plan whose members are numbers": ("run: plan.json", b'{"members": [7]}'),
    "a plan without members": ("run: plan.json", b"{}"),
    "a plan that is nested": ("run: plan.json", b"[" * 100_000),
    "a sample at no time": (
        "run: samples/worker-0.jsonl",
        _line("sample", t=_NAN, cpu_s=_NAN, rss_bytes=_NAN),
    ),
    "a step that is no number": (
        "run: samples/worker-0.jsonl",
        _line("step", r=0, step=_NAN, examples=float("inf"), loss=_NAN, n=10**400),
    ),
    "a start whose variables are a list": ("run: start.json", _start(values=["A"])),
    "a start whose Python is a number": ("run: start.json", _start(python=7)),
    "a rank of 5,000 digits": (
        "run: logs",
        b"2026-11-18T00:00:00.000000Z out " + b"9" * 5000 + b" step 1\n",
    ),
}
