"""The simulated runtime: every member follows a script, and waiting is a jump of the clock.

It keeps the protocol of `mooring.backends.base` to the letter (gates, epochs, grace, exit codes as
a shell sees them), so that whatever drives a real runtime can be driven here, a year in an instant.
The time that callers pass in must come from `clock`.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mooring.backends.base import Order
from mooring.lifecycle import Event, MemberExited, MemberReady, MemberRunning
from mooring.model.cluster import NodeUse, Snapshot
from mooring.model.errors import RunFailed
from mooring.model.launch import Address
from mooring.model.member import Gang, MemberId
from mooring.model.plan import Plan, with_member

_TERMINATED = 128 + signal.SIGTERM
_KILLED = 128 + signal.SIGKILL
_FIRST_PORT = 20_000
_LAST_PORT = 65_535


@dataclass(frozen=True)
class Script:
    """What a member does: how long it runs, how it ends, and how it takes being stopped."""

    duration_s: float = math.inf
    exit_code: int = 0
    #: From the start of its launcher until it is ready.
    start_s: float = 0.0
    #: From a request to stop until it has ended; infinite if it does not care.
    stop_s: float = 0.0
    #: The member cannot be started at all, for this reason.
    refuses: str = ""


class VirtualClock:
    """Virtual time: it never goes back, and moves only when somebody waits."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        return self._now_s

    def move_to(self, now_s: float) -> None:
        self._now_s = max(self._now_s, now_s)


@dataclass
class _Attempt:
    """One member that was started. Times are of the clock; None: not yet."""

    order: Order
    script: Script
    ready_s: float
    told_ready: bool = False
    gate_open: bool = False
    running_s: float | None = None
    told_running: bool = False
    ends_s: float = math.inf
    exit_code: int = 0


class SimulatedRuntime:
    """Carries out one job on nodes that are only described. See `mooring.backends.base.Runtime`."""

    def __init__(
        self,
        snapshot: Snapshot,
        script: Callable[[Order], Script],
        clock: VirtualClock | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._script = script
        self.clock = clock or VirtualClock()
        self._attempts: dict[MemberId, _Attempt] = {}
        self._next_port = _FIRST_PORT
        self._hosts = {
            node.name: node.address or f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"
            for index, node in enumerate(snapshot.nodes)
        }
        #: Members whose processes have been started at least once.
        self.ran: set[MemberId] = set()

    @property
    def enforces(self) -> str:
        return "nothing: members are simulated"

    @property
    def alive(self) -> tuple[MemberId, ...]:
        """The members of whom something is left."""
        return tuple(self._attempts)

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def held(self) -> dict[str, NodeUse]:
        """What the members that live hold, node by node, beside what others hold."""
        use = dict(self._snapshot.use)
        for attempt in self._attempts.values():
            slot, member = attempt.order.slot, attempt.order.member
            use[slot.node] = with_member(use.get(slot.node, NodeUse()), member, slot)
        return use

    def prepare(self, gang: Gang, plan: Plan, epoch: int) -> Mapping[MemberId, Address]:
        addresses = {}
        members = {member.id: member for member in gang.members}
        for placement in plan.placements:
            host = self._hosts.get(placement.slot.node)
            if host is None:
                raise RunFailed(f"there is no node {placement.slot.node}")
            asked = members[placement.member].ports
            ports = {name: port or self._new_port() for name, port in asked.items()}
            addresses[placement.member] = Address(host, ports)
        return addresses

    def _new_port(self) -> int:
        port = self._next_port
        self._next_port = port + 1 if port < _LAST_PORT else _FIRST_PORT
        return port

    def start(self, orders: Sequence[Order]) -> None:
        scripts = [self._script(order) for order in orders]
        refused = next((script.refuses for script in scripts if script.refuses), "")
        if refused:
            raise RunFailed(f"cannot start the gang: {refused}")
        now_s = self.clock.now_s()
        for order, script in zip(orders, scripts, strict=True):
            self._attempts[order.member.id] = _Attempt(order, script, now_s + script.start_s)

    def open_gate(self, members: Sequence[MemberId]) -> None:
        for member in members:
            attempt = self._attempts.get(member)
            if attempt is not None:
                attempt.gate_open = True
                self._run(attempt)

    def _run(self, attempt: _Attempt) -> None:
        """Once its gate is open, a member runs from the moment that it is ready."""
        if attempt.running_s is None and attempt.ends_s > attempt.ready_s:
            begins_s = max(self.clock.now_s(), attempt.ready_s)
            attempt.running_s = begins_s
            self._end_at(attempt, begins_s + attempt.script.duration_s, attempt.script.exit_code)

    def stop(self, members: Sequence[MemberId], grace_s: float, now_s: float) -> None:
        self.clock.move_to(now_s)
        now_s = self.clock.now_s()
        for member in members:
            attempt = self._attempts.get(member)
            if attempt is None:
                continue
            if grace_s <= 0:
                self._end_at(attempt, now_s, _KILLED)
            elif attempt.script.stop_s <= grace_s or attempt.running_s is None:
                # A launcher at its gate has nothing to wait for.
                wait_s = 0.0 if attempt.running_s is None else attempt.script.stop_s
                self._end_at(attempt, now_s + wait_s, _TERMINATED)
            else:
                self._end_at(attempt, now_s + grace_s, _KILLED)

    @staticmethod
    def _end_at(attempt: _Attempt, at_s: float, exit_code: int) -> None:
        """What ends it first, ends it."""
        if at_s < attempt.ends_s:
            attempt.ends_s, attempt.exit_code = at_s, exit_code

    def poll(self, now_s: float, timeout_s: float) -> list[Event]:
        self.clock.move_to(now_s)
        events = self._happened()
        if not events and timeout_s > 0:
            limit_s = self.clock.now_s() + timeout_s
            self.clock.move_to(min(limit_s, self.next_s()))
            events = self._happened()
        return events

    def next_s(self) -> float:
        """When something will happen by itself; infinite if nothing will."""
        return min(
            (self._next_of(attempt) for attempt in self._attempts.values()), default=math.inf
        )

    @staticmethod
    def _next_of(attempt: _Attempt) -> float:
        if not attempt.told_ready:
            return min(attempt.ready_s, attempt.ends_s)
        if attempt.running_s is not None and not attempt.told_running:
            return min(attempt.running_s, attempt.ends_s)
        return attempt.ends_s

    def _happened(self) -> list[Event]:
        """All that is due, in the order of time and then of start."""
        now_s = self.clock.now_s()
        due: list[tuple[float, Event]] = []
        for member, attempt in list(self._attempts.items()):
            which = (member, attempt.order.epoch, attempt.order.attempt)
            last_s = min(now_s, attempt.ends_s)
            if not attempt.told_ready and attempt.ready_s <= last_s:
                attempt.told_ready = True
                due.append((attempt.ready_s, MemberReady(*which)))
            running_s = attempt.running_s
            if running_s is not None and not attempt.told_running and running_s <= last_s:
                attempt.told_running = True
                self.ran.add(member)
                due.append((running_s, MemberRunning(*which)))
            if attempt.ends_s <= now_s:
                del self._attempts[member]
                due.append((attempt.ends_s, MemberExited(*which, attempt.exit_code)))
        return [event for _, event in sorted(due, key=lambda one: one[0])]

    def bytes_by_node(self) -> dict[str, tuple[int, int]]:
        return {}

    def close(self) -> None:
        self._attempts.clear()
