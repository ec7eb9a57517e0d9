"""The local runtime: a launcher process for each member, held to its slot, ended with its run.

It relies on the launcher's contract (a line on stdin opens the gate; end of file there means
that we died) and on the launcher's sample file, where readiness and errors are reported.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from mooring.backends.base import Order
from mooring.backends.local import cgroups, owners, processes
from mooring.backends.local.contract import AttemptSettings, LauncherSettings, write_contract
from mooring.backends.local.fork_server import ForkServer
from mooring.backends.local.launchers import UNKNOWN_CODE, LauncherProcess, Launchers
from mooring.backends.local.nodes import LocalNodes, holdings_of_others
from mooring.backends.local.pack import copy_launcher
from mooring.backends.local.sharing import SharedCpus
from mooring.backends.local.waiting import Bell
from mooring.brain.thread_shares import Sharer, threads_of
from mooring.lifecycle import Event, MemberExited, MemberReady, MemberRunning
from mooring.model.cluster import Snapshot, format_cpus
from mooring.model.errors import BadInput, RunFailed
from mooring.model.launch import Address, Launch
from mooring.model.member import Gang, MemberId, Pinning
from mooring.model.plan import Plan
from mooring.record import RunRecord, plan_lock
from mooring.record.locks import exclusive
from mooring.record.private import FILE_MODE, make_folder, open_file
from mooring.record.state_home import cache_dir
from mooring.wire import JournalTail, MemberRecord
from mooring.wire.members import Exit, LauncherError, Ready, Running

#: How long a launcher may take, beyond its members' grace, to end itself before it is killed.
_LAUNCHER_GRACE_S = 5.0
#: What mpirun and its daemons call, and the launcher's command for it.
_RANK_PROGRAMS = {"moor-rsh": "rsh", "moor-rank": "rank"}


@dataclass
class _Attempt:
    """One running launcher."""

    order: Order
    process: LauncherProcess
    tail: JournalTail
    kill_at_s: float | None = None
    exit_reason: str = ""
    said_exit: bool = False
    said_code: int = 0
    seen: set[str] = field(default_factory=set)


class LocalRuntime:
    """Carries out one run on this machine. See `mooring.backends.base.Runtime`."""

    def __init__(
        self,
        run: RunRecord,
        nodes: LocalNodes,
        settings: LauncherSettings,
        inherited: Mapping[str, str] = os.environ,
        fork_server: ForkServer | None = None,
    ) -> None:
        """`fork_server` makes the launchers, as long as it can; it stays its giver's to close."""
        self._run = run
        self._launchers = Launchers(run.launcher_file, fork_server)
        self._inherited = dict(inherited)
        self._nodes = nodes
        self._settings = settings
        hierarchy = cgroups.find_hierarchy()
        self._groups = cgroups.RunGroups(hierarchy, run.info.token) if hierarchy else None
        self._addresses: dict[MemberId, Address] = {}
        self._attempts: dict[MemberId, _Attempt] = {}
        self._tails: dict[MemberId, JournalTail] = {}
        self._bell = Bell()
        self._rank_token = secrets.token_hex(16)
        self._hosts_file: Path | None = None
        self._slots: dict[MemberId, tuple[str, str]] = {}
        self._owner = owners.name_of(run.info.pid, run.info.start_mark)
        self._shared_cpus = SharedCpus(run.info.id, self._owner, self._groups)
        self._devices_are_given = False
        self._closed = False

    @property
    def enforces(self) -> str:
        """How members are held, in one sentence for the report."""
        if self._groups is None:
            return "CPU affinity; memory limits are not enforced (no control groups here)"
        return "control groups: CPU sets, CPU weights and memory limits are enforced"

    def snapshot(self) -> Snapshot:
        return self._nodes.snapshot()

    def prepare(self, gang: Gang, plan: Plan, epoch: int) -> Mapping[MemberId, Address]:
        try:
            owners.claim(self._run.info.token)
            if not self._run.launcher_file.exists():
                copy_launcher(self._run.launcher_file, cache_dir())
            self._devices_are_given = any(member.resources.gpu_millis for member in gang.members)
            if self._groups is not None:
                self._groups.expect(member.resources.cpu_millis for member in gang.members)
            self._nodes.make()
            self._nodes.release_ports()
            self._addresses = self._nodes.addresses(gang.members)
        except OSError as error:
            raise RunFailed(f"cannot prepare {self._run.root}: {error.strerror}") from error
        return self._addresses

    def start(self, orders: Sequence[Order]) -> None:
        started: list[MemberId] = []
        try:
            for order in orders:
                self._slots[order.member.id] = (order.member.hostname, order.slot.node)
            self._hosts_file = self._nodes.write_hosts(
                self._run.root / "hosts", dict(self._slots.values())
            )
            threads = self._threads_of(orders)
            for order in orders:
                self._start_one(order, threads[order.member.id])
                started.append(order.member.id)
        except (OSError, RunFailed, BadInput) as error:
            for member in started:
                self._end(member)
            raise RunFailed(f"cannot start the gang: {error}") from error

    def _threads_of(self, orders: Sequence[Order]) -> dict[MemberId, int]:
        """Threads for each process, such that those who share CPUs do not have more than CPUs.

        Those who share are our members that run or start now, and those of the user's other runs.
        """
        live = {member: attempt.order for member, attempt in self._attempts.items()}
        live.update({order.member.id: order for order in orders})
        ours = [
            Sharer(
                frozenset(order.slot.cpus),
                order.member.resources.cpu_millis,
                order.member.processes,
                order.slot.exclusive,
                order.member.computes,
            )
            for order in live.values()
        ]
        others = [
            Sharer(
                frozenset(holding.slot.cpus),
                holding.resources.cpu_millis,
                exclusive=holding.slot.exclusive,
            )
            for holding in holdings_of_others(self._run.info.id)
        ]
        return dict(zip(live, threads_of([*ours, *others]), strict=False))

    def open_gate(self, members: Sequence[MemberId]) -> None:
        for member in members:
            attempt = self._attempts.get(member)
            if attempt is not None and attempt.process.stdin is not None:
                # A launcher that has just died is reported by `poll`.
                with suppress(BrokenPipeError):
                    attempt.process.stdin.write(b"go\n")
                    attempt.process.stdin.flush()

    def stop(self, members: Sequence[MemberId], grace_s: float, now_s: float) -> None:
        for member in members:
            attempt = self._attempts.get(member)
            if attempt is None:
                continue
            if grace_s <= 0:
                self._kill(attempt)
                continue
            attempt.process.send_signal(signal.SIGTERM)
            kill_at_s = now_s + grace_s + _LAUNCHER_GRACE_S
            attempt.kill_at_s = min(kill_at_s, attempt.kill_at_s or kill_at_s)

    def poll(self, now_s: float, timeout_s: float) -> list[Event]:
        self._keep_off(now_s)
        events = self._collect(now_s)
        if not events and timeout_s > 0:
            started = [attempt.process for attempt in self._attempts.values()]
            self._bell.wait(*self._launchers.ends(started), timeout_s)
            events = self._collect(now_s)
        return events

    def _keep_off(self, now_s: float) -> None:
        """Keep members that share CPUs off those that other runs have come to hold."""
        held = {
            attempt.order.member.name: (attempt.process.pid, attempt.order.slot.cpus)
            for attempt in self._attempts.values()
            if not attempt.order.slot.exclusive
        }
        self._shared_cpus.update(held, now_s)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for attempt in list(self._attempts.values()):
            self._kill(attempt)
        for attempt in list(self._attempts.values()):
            attempt.process.wait()
            self._sweep(attempt, thorough=False)
        self._kill_owned()
        if self._groups is not None:
            self._groups.close()
        self._nodes.close()
        self._bell.close()
        owners.release(self._run.info.token)
        # What this run held is free now: the time of the lock tells the others to look again.
        with suppress(OSError), exclusive(plan_lock()):
            self._run.released_file.touch(mode=FILE_MODE)

    def bytes_by_node(self) -> dict[str, tuple[int, int]]:
        return self._nodes.bytes_by_node()

    def _collect(self, now_s: float) -> list[Event]:
        events: list[Event] = []
        for member, attempt in list(self._attempts.items()):
            code = attempt.process.poll()
            events += self._said(attempt)
            if code is None:
                if attempt.kill_at_s is not None and now_s >= attempt.kill_at_s:
                    self._kill(attempt)
                continue
            self._sweep(attempt, thorough=not attempt.said_exit)
            del self._attempts[member]
            if attempt.said_exit and code == UNKNOWN_CODE:
                code = attempt.said_code
            exit_code = 128 - code if code < 0 else code
            reason = attempt.exit_reason
            if not attempt.said_exit and not reason:
                reason = "its launcher was killed" if code < 0 else "its launcher failed"
                reason += self._launcher_complaint(attempt)
            order = attempt.order
            events.append(MemberExited(member, order.epoch, order.attempt, exit_code, reason))
        return events

    def _said(self, attempt: _Attempt) -> list[Event]:
        order = attempt.order
        which = (order.member.id, order.epoch, order.attempt)
        events: list[Event] = []
        for record in attempt.tail.read():
            if not isinstance(record, MemberRecord) or record.start != (order.epoch, order.attempt):
                continue
            match record:
                case Ready():
                    events.append(MemberReady(*which))
                case Running():
                    events.append(MemberRunning(*which))
                case LauncherError():
                    attempt.exit_reason = record.reason
                case Exit():
                    attempt.said_exit = True
                    attempt.said_code = record.code or 0
                    attempt.exit_reason = attempt.exit_reason or record.reason
        return events

    def _start_one(self, order: Order, share_threads: int) -> None:
        member = order.member
        launch = replace(order.launch, env=self._environment(order))
        limits = cgroups.Limits(
            cpus=format_cpus(order.slot.cpus) if member.pinning is not Pinning.NONE else None,
            cells=format_cpus(order.slot.cells) or None,
            cpu_millis=member.resources.cpu_millis or None,
            memory_bytes=member.resources.memory_bytes or None,
        )
        joins = self._groups.make(member.name, limits) if self._groups else []
        around = AttemptSettings(
            joins,
            self._nodes.namespace_of(order.slot.node),
            self._hosts_file,
            {id_: address for id_, address in self._addresses.items() if id_ in self._slots},
            self._rank_token,
            self._devices_are_given,
            share_threads,
            1 if order.slot.exclusive else self._sharing_members(order.slot.node),
        )
        order = replace(order, launch=launch)
        contract = write_contract(self._run, self._settings, order, around)
        complaints = self._run.member_dir(member.name) / "launcher.err"
        with open_file(complaints) as stderr:
            process = self._launchers.start(
                contract, self._inherits(launch), self._bell.rope, stderr.fileno()
            )
        tail = self._tails.setdefault(member.id, JournalTail(self._run.sample_file(member.name)))
        self._attempts[member.id] = _Attempt(order, process, tail)

    def _sharing_members(self, node: str) -> int:
        return max(1, sum(at == node for _, at in self._slots.values()))

    def _environment(self, order: Order) -> dict[str, str]:
        """What is set for a member, without what it inherits."""
        environment = dict(order.launch.env)
        environment[processes.RUN_VARIABLE] = self._run.info.id
        environment[processes.MEMBER_VARIABLE] = order.member.name
        environment[owners.OWNER_VARIABLE] = self._owner
        if order.launch.serves_ranks or "MOORING_RANK_HOSTS" in order.launch.env:
            # Also where ranks are served: Open MPI's daemon checks that the program exists.
            _write_rank_programs(self._run.root / "bin", self._run.launcher_file)
            environment["MOORING_RANK_TOKEN"] = self._rank_token
            if "PATH" in environment:
                environment["PATH"] = self._with_rank_programs(environment["PATH"])
        return environment

    def _with_rank_programs(self, path: str) -> str:
        return f"{self._run.root / 'bin'}{os.pathsep}{path}"

    def _inherits(self, launch: Launch) -> dict[str, str]:
        """What a launcher is started with: the caller's variables are written down nowhere."""
        environment = {**self._inherited, **launch.env}
        if "MOORING_RANK_TOKEN" in launch.env and "PATH" not in launch.env:
            environment["PATH"] = self._with_rank_programs(environment.get("PATH", os.defpath))
        return environment

    def _launcher_complaint(self, attempt: _Attempt) -> str:
        path = self._run.member_dir(attempt.order.member.name) / "launcher.err"
        with suppress(OSError):
            lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return f": {lines[-1]}" if lines else ""
        return ""

    def _kill_owned(self, member: str | None = None) -> None:
        find = partial(processes.owned_processes, self._run.info.id, self._owner, member)
        processes.kill_until_none(find)

    def _kill(self, attempt: _Attempt) -> None:
        processes.signal_sessions([attempt.process.pid], signal.SIGKILL)
        if self._groups is not None:
            self._groups.kill(attempt.order.member.name)

    def _end(self, member: MemberId) -> None:
        attempt = self._attempts.pop(member)
        self._kill(attempt)
        attempt.process.wait()
        self._sweep(attempt, thorough=True)

    def _sweep(self, attempt: _Attempt, *, thorough: bool) -> None:
        """End what a member's launcher may have left when it did not end by itself."""
        name = attempt.order.member.name
        if attempt.process.stdin is not None:
            with suppress(BrokenPipeError):
                attempt.process.stdin.close()
        if self._groups is not None:
            self._groups.kill(name)
            # The kernel may need a moment to let the dead leave; `close` removes what stays.
            self._groups.remove(name)
        elif thorough:
            self._kill_owned(name)


def _write_rank_programs(folder: Path, launcher: Path) -> None:
    """On PATH, because the options of mpirun that name them split at spaces."""
    make_folder(folder)
    for name, command in _RANK_PROGRAMS.items():
        script = folder / name
        if not script.exists():
            python, archive = _quoted(sys.executable), _quoted(str(launcher))
            script.write_text(
                f'#!/bin/sh\nexec {python} -I -S {archive} {command} "$@"\n', encoding="utf-8"
            )
            script.chmod(0o700)


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
