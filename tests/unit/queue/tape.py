"""Traces read off a string of bytes: one draw a trace, which hypothesis still shrinks well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shelf import Shelf, cluster, pool, queued

from mooring.brain.queue import QueuedGang, QueuePolicy, QueueState

T = TypeVar("T")

POOLS = ("a", "b", "c")
#: Members and devices each; each number of devices divides the next larger one.
SIZES = ((1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4), (2, 4), (3, 1), (6, 1))
CLUSTERS = ((2, 4), (1, 4), (3, 4), (4, 2), (3, 8))


class Tape:
    """Past its end a tape gives the first of everything."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __repr__(self) -> str:
        return f"Tape({self._data!r})"

    @property
    def left(self) -> bool:
        return self._at < len(self._data)

    def number(self, below: int) -> int:
        found = self._data[self._at] % below if self.left else 0
        self._at += 1
        return found

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.number(len(choices))]

    def size(self) -> tuple[int, int]:
        return self.one_of(SIZES)

    def cluster(self) -> tuple[Shelf, QueueState]:
        """With or without pools, whose guarantees are parts of it in eighths."""
        nodes, each = self.one_of(CLUSTERS)
        shelf, capacity = cluster(nodes, each)
        state = QueueState(capacity, policy=QueuePolicy(ageing_per_s=0.05))
        left = capacity.gpus
        pools = []
        for name in POOLS[: self.number(4)]:
            own = min(left, self.number(5) * capacity.gpus // 8)
            left -= own
            more = self.one_of((None, 4, 8))
            cap = None if more is None else own + more
            pools.append(pool(name, own, cap, self.one_of((1.0, 0.5, 2.0))))
        return shelf, replace(state, pools=tuple(pools))

    def gang(self, name: str, now_s: float) -> QueuedGang:
        members, each = self.size()
        return queued(
            name,
            members,
            each,
            self.one_of((0, 0, 5, 10)),
            self.one_of(POOLS),
            now_s,
            preemptible=self.one_of((True, True, True, False)),
            least=self.one_of((None, None, 1, 2)),
            expected_s=self.one_of((None, 5.0, 20.0)),
        )


def traces(number: int, bytes_each: int = 120):  # type: ignore[no-untyped-def]
    """Run the test on that many tapes. Left to itself hypothesis would make them too short."""

    def wrap(test):  # type: ignore[no-untyped-def]
        given_tape = given(st.binary(min_size=bytes_each // 2, max_size=bytes_each).map(Tape))
        quick = [HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large]
        wrapped = settings(max_examples=number, deadline=None, suppress_health_check=quick)(
            given_tape(test)
        )
        wrapped.number_of_traces = number
        return wrapped

    return wrap
