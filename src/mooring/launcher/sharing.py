"""What a member tells the first one of itself: how it is doing, and enough to say why it is slow.

In pods the journals stay with their members. The first one keeps the last minutes of everybody, so
that one question answers for the gang. Samples are passed on every few seconds and steps summed up
between them; a gang of hundreds then costs its first member some lines a second.
"""

from __future__ import annotations

from . import own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .contract import Contract
    from .meeting import Gate

EVERY_S = 5.0
#: Records that are passed on as they are, and again when the connection was lost.
KEPT = frozenset(["ready", "variables", "program"])
#: Of the bytes to each peer, there are as many as members.
_LEFT_OUT = frozenset(["peers"])


class GangSharing:
    """Follows a member's journal, and tells the gang what is worth it."""

    def __init__(self, contract: Contract, gate: Gate) -> None:
        self._contract, self._gate = contract, gate
        self._last_s = 0.0
        self._step: dict[str, Any] = {}
        self._examples = 0
        self._cpus: list[int] | None = None

    def tell_cpus(self, cpus: list[int]) -> None:
        """The kubelet may move members that share CPUs at any time, so this is told again."""
        if cpus == self._cpus:
            return
        self._cpus = cpus
        contract = self._contract
        is_own, why = own.judge(
            contract.exclusive, contract.cpu_millis, len(cpus), own.online_cpus()
        )
        self._gate.tell({"cpus": cpus, "own": is_own, "own_why": why})

    def hear(self, record: dict[str, Any]) -> None:
        """A record of the journal."""
        kind = record["kind"]
        if kind in KEPT:
            self._gate.pass_on(record)
        elif kind == "step":
            self._tell_step(record)
            self._add(record)
        elif kind == "looks":
            self._gate.pass_on(record)
        elif kind == "sample" and record["t"] - self._last_s >= EVERY_S:
            self._last_s = record["t"]
            self._gate.pass_on({key: record[key] for key in record if key not in _LEFT_OUT})
            if self._step:
                self._gate.pass_on(self._step)
                self._step = {}

    def _tell_step(self, record: dict[str, Any]) -> None:
        self._examples += record.get("examples") or 0
        doing = {"examples": self._examples, "step_t": round(record["t"], 3)}
        for name in ("step", "loss", "total"):
            if record.get(name) is not None:
                doing[name] = record[name]
        self._gate.tell(doing)

    def _add(self, record: dict[str, Any]) -> None:
        """Ranks of one member step together: only the first one's count as steps."""
        before = self._step
        self._step = dict(record, examples=_sum(before, record, "examples"))
        if record.get("r"):
            self._step.update({key: before[key] for key in ("r", "step", "n") if key in before})
        else:
            self._step["n"] = _sum(before, record, "n")


def _sum(before: dict[str, Any], record: dict[str, Any], key: str) -> int:
    return (before.get(key) or 0) + (record.get(key) or 0)
