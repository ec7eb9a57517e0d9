"""What the programs share: how long they train, their parameters, and the switch.

A program calls `hook("a")`, `hook("b")`, … at points that mean nothing by themselves. The
environment says what happens there: `SWITCH="b=gamma:4000@1"` does `gamma` with 4000 at the point b
of rank 1, `a=alpha:0.1/5` does `alpha` at every fifth call. Without it a hook does nothing. The
actions have letters for names, so that no stack says what is wrong with a run:

    alpha    sleeps some seconds                       epsilon  writes and syncs a file of some MB
    beta     counts words, in Python                   zeta     unpacks and parses some records
    gamma    compares numbers, in Python               eta      keeps some MB more each second
    delta    sorts, in numpy                           theta    starts threads that count in Python
    iota     waits for a pipe, some seconds or (0) for ever
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

_OUT = Path(os.environ.get("STRANGER_OUT", "."))
_SECONDS = float(os.environ.get("SECONDS", "12"))
#: Ranks that go together are at most so many steps apart.
_MARGIN = 3
#: So many steps at most are not counted, as programs are slow at first.
_COLD = 3
_kept: list[object] = [None]
_times: dict[str, float] = {}
_BLOCK = bytes(range(256)) * 4096


def rank() -> int:
    """Of this process among those that train; -1 for a server."""
    for name in ("RANK", "OMPI_COMM_WORLD_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    if task.get("type") == "ps":
        return -1
    return int(task.get("index", os.environ.get("MOORING_INDEX", "0")))


def number(name: str, default: int) -> int:
    """A parameter; `64,192` gives the second rank another value, and the last one to all beyond."""
    values = os.environ.get(name, str(default)).split(",")
    return int(values[min(max(rank(), 0), len(values) - 1)])


def rounds(examples: int, together: bool = True) -> Iterator[int]:
    """Numbers of steps until the time is over; `examples` is what this process does in one.

    Ranks that go `together` end at the same step: the first one says which, some steps ahead.
    """
    first, path, last = rank() == 0, _OUT / "last", None
    began = warm = time.monotonic()
    step = since = 0
    while last is None or step < last:
        step += 1
        if step <= 2 or (step <= 1 + _COLD and time.monotonic() - began < _SECONDS / 4):
            since, warm = step, time.monotonic()
        yield step
        if last is None and (first or not together):
            if time.monotonic() - began > _SECONDS:
                last = step + (_MARGIN if together else 0)
                if together:
                    (_OUT / "last.new").write_text(str(last))
                    (_OUT / "last.new").rename(path)
        elif last is None and path.exists():
            last = int(path.read_text())
    span_s = time.monotonic() - warm
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    done = {"steps": step, "span_s": span_s, "examples": (step - since + 1) * examples}
    (_OUT / f"rate-{rank()}.json").write_text(json.dumps({**done, "peak_mb": peak_mb}))


def path(name: str) -> Path:
    """Where a program keeps a file of its own."""
    return _OUT / name


def hook(point: str) -> None:
    for plan in _PLANS.get(point, ()):
        plan()


class _Plan:
    """One action at one point: `NAME[:AMOUNT][@RANK][/EVERY]`."""

    def __init__(self, text: str) -> None:
        text, _, every = text.partition("/")
        text, _, place = text.partition("@")
        name, _, amount = text.partition(":")
        self._action = _ACTIONS[name]
        self._amount = float(amount or "0")
        self._here = not place or int(place) == rank()
        self._every = int(every or "1")
        self._calls = 0

    def __call__(self) -> None:
        self._calls += 1
        if self._here and self._calls % self._every == 0:
            self._action(self._amount)


def alpha(amount: float) -> None:
    time.sleep(amount)


def beta(amount: float) -> None:
    line = "The quick brown fox, it seems, jumps over 13 lazy dogs; and then (again) over 7 more. "
    seen: Counter[tuple[str, str]] = Counter()
    for _ in range(int(amount)):
        words = [word.strip(".,;()").lower() for word in line.split()]
        seen.update(pairwise(words))
    _kept[:1] = [seen.most_common(3)]


def gamma(amount: float) -> None:
    values = [random.random() for _ in range(int(amount))]
    above = 0
    for left in values:
        for right in values[:100]:
            if left > right:
                above += 1
    _kept[:1] = [above]


def delta(amount: float) -> None:
    values = np.random.random(int(amount))
    _kept[:1] = [np.cumsum(np.sort(values))[np.argsort(values)][-1]]


def epsilon(amount: float) -> None:
    with (_OUT / f"part-{rank()}").open("wb") as file:
        for _ in range(int(amount)):
            file.write(_BLOCK)
        file.flush()
        os.fsync(file.fileno())


_RECORD = zlib.compress(json.dumps([{"id": i, "value": i / 7} for i in range(40)]).encode())


def zeta(amount: float) -> None:
    for _ in range(int(amount)):
        records = json.loads(zlib.decompress(_RECORD))
    _kept[:1] = [sum(record["value"] for record in records)]


def eta(amount: float) -> None:
    began = _times.setdefault("eta", time.monotonic())
    while len(_kept) < 1 + (time.monotonic() - began) * amount / 4:
        _kept.append(np.ones(4 << 17))


def theta(amount: float) -> None:
    if threading.active_count() < amount + 1:
        for _ in range(int(amount)):
            threading.Thread(target=_count, daemon=True).start()


def _count() -> None:
    while True:
        sum(i * i for i in range(1000))


def iota(amount: float) -> None:
    ends = os.pipe()
    select.select(ends[:1], [], [], amount or None)
    for end in ends:
        os.close(end)


_ACTIONS = {
    action.__name__: action
    for action in (alpha, beta, gamma, delta, epsilon, zeta, eta, theta, iota)
}
_PLANS: dict[str, list[_Plan]] = {}
for _text in filter(None, os.environ.get("SWITCH", "").split(";")):
    _point, _, _what = _text.partition("=")
    _PLANS.setdefault(_point, []).append(_Plan(_what))
