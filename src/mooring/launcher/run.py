"""The life of one member: take the slot, wait for the gang, run, measure, end, say how it ended.

Everything happens on one thread in one loop. However it ends, nothing of the subtree is left.
"""

from __future__ import annotations

import os
import resource
import signal
import time

from . import budget, cgroups, children, environment, outcome, procfs, slot
from .errors import PEERS_UNRESOLVED, LaunchError
from .logs import LogFile
from .loop import Loop
from .output import OutputStream
from .peers import Resolver
from .steps import Steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .agent import RankServer
    from .contract import Contract
    from .journal import AttemptJournal
    from .looks import LooksWriter
    from .sample import Sampler
    from .sharing import GangSharing

# Nobody reads the output of a member whose supervisor is gone.
_GRACE_WITHOUT_BODY_S = 2.0
# What looks need is loaded when the programs already run.
_LOOK_AFTER_S = 0.3
# Why the other processes of a member are stopped; how it ended is that rank's.
_RANK_FAILED = "rank-failed"
# A process that was handed the pipe and escaped the subtree must not keep the member alive.
_DRAIN_S = 1.0


class _Stopped(Exception):
    """A stop was asked for before anything was started."""


class MemberAttempt:
    """One attempt of one member."""

    def __init__(self, contract: Contract, journal: AttemptJournal) -> None:
        self._contract = contract
        self._journal = journal
        self._loop = Loop()
        self._locals: list[children.ChildProcess] = []
        self._failed: tuple[int, int] | None = None
        self._agent: RankServer | None = None
        self._sampler: Sampler | None = None
        self._sharing: GangSharing | None = None
        self._looks: LooksWriter | None = None
        self._gate_open = contract.gate == "open"
        #: The name of a signal, outcome.SUPERVISOR_GONE, or _RANK_FAILED.
        self._stopped_by: str | None = None
        self._started = False
        self._killed = False
        self._unkillable = False
        self._streams: list[OutputStream] = []
        self._flush_set = False
        self._has_stepped = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._loop.on_signal(number, self._told_to_stop)
        self._loop.on_signal(signal.SIGCHLD, lambda number: self._child_ended())
        if contract.gate == "stdin":
            self._watch_runtime()

    def run(self) -> int:
        try:
            return self._run()
        except _Stopped:
            self._journal.last("exit", dict(outcome.not_started(self._stopped_by or ""), codes=[]))
            return outcome.TERMINATED
        except BaseException:
            children.kill_all(self._roots())
            raise

    def _run(self) -> int:
        contract = self._contract
        held, notes = slot.enter(contract)
        pinned = contract.cpus is not None and held["why_not"] is None
        children.adopt_orphans(notes)
        self._groups = cgroups.find()
        self._budget = budget.read(
            self._groups,
            contract.cpu_millis,
            contract.memory_bytes,
            contract.threads,
            len(contract.processes),
            share_threads=contract.share_threads,
            sharers=contract.sharers,
        )
        self._check_memory(notes)
        env = environment.build(contract, self._budget, notes)
        program = ""
        if contract.agent_port is None:
            program = children.find_program(contract.argv[0], env, contract.cwd)
        try:
            self._log = LogFile(contract.log_path)
        except OSError as error:
            raise LaunchError("log %s: %s" % (contract.log_path, error.strerror)) from error
        self._addresses = self._resolve_peers()
        if contract.agent_port is not None:
            self._open_agent(env)
        self._journal.insist(
            "ready",
            {
                "pid": os.getpid(),
                "budget": self._budget.record(),
                "pinned": pinned,
                "held": held,
                "notes": notes,
            },
        )
        self._ring()
        if contract.gate == "meeting":
            self._go_to_meeting(pinned)
        while not self._gate_open:
            self._turn_unless_stopped()
        self._steps = Steps(
            self._stepped,
            contract.step_pattern if contract.step_source == "regex" else None,
            contract.examples_per_step,
            len(contract.processes),
            self._journal.write,
            guess=contract.step_source == "auto",
        )
        self._start(program, env)
        self._loop.at(time.monotonic() + contract.sample_interval_s, self._sample)
        if contract.looks:
            self._loop.at(time.monotonic() + _LOOK_AFTER_S, self._begin_looks)
        while not self._over():
            self._loop.turn()
        return self._finish()

    # Before the start.

    def _check_memory(self, notes: list[str]) -> None:
        asked = self._contract.memory_bytes
        enforced = self._budget.sources.get("memory_limit_bytes")
        if asked is not None and (enforced is None or enforced > asked):
            notes.append(
                "memory limit of %s is not enforced: no control group" % outcome.size(asked)
            )

    def _resolve_peers(self) -> dict[str, list[str]]:
        limit_s = self._contract.resolve_timeout_s
        deadline = time.monotonic() + limit_s
        resolver = Resolver(self._contract.peers)
        if resolver.fd is None:
            return resolver.addresses
        fd = resolver.fd

        def readable() -> None:
            if not resolver.readable():
                self._loop.watch(fd, None)

        self._loop.watch(fd, readable)
        try:
            while not resolver.done:
                if time.monotonic() >= deadline:
                    raise LaunchError(
                        "names of peers did not resolve within %g s: %s"
                        % (limit_s, resolver.missing()),
                        PEERS_UNRESOLVED,
                    )
                self._turn_unless_stopped(deadline)
        finally:
            self._loop.watch(fd, None)
            resolver.close()
        return resolver.addresses

    def _open_agent(self, env: dict[str, str]) -> None:
        from .agent import RankServer

        contract = self._contract
        assert contract.agent_port is not None
        own = [peer.host for peer in contract.peers if peer.member == contract.member]
        address = self._addresses[own[0]][0] if own else ""
        self._agent = RankServer(
            self._loop, address, contract.agent_port, contract.agent_token, env, contract.cwd
        )

    def _go_to_meeting(self, pinned: bool) -> None:
        """Wait for the whole gang; who has lived before goes on alone."""
        from .meeting import Gate
        from .sharing import GangSharing

        contract = self._contract
        deadline = time.monotonic() + contract.resolve_timeout_s

        def opened() -> None:
            self._gate_open = True

        def address() -> str:
            return self._addresses[contract.meeting_host][0]

        gate = Gate(contract, self._loop, address, opened)
        gate.tell({"threads": self._budget.threads, "pinned": pinned})
        self._sharing = GangSharing(contract, gate)
        self._sharing.tell_cpus(self._budget.cpus)
        self._journal.follow(self._sharing.hear)
        if contract.attempt and not contract.meeting_leads:
            self._gate_open = True
        while not self._gate_open:
            if gate.refusal:
                raise LaunchError("not let into the gang: %s" % gate.refusal)
            if time.monotonic() >= deadline:
                raise LaunchError(
                    "the gang did not come together within %g s" % contract.resolve_timeout_s,
                    PEERS_UNRESOLVED,
                )
            self._turn_unless_stopped(deadline)

    def _turn_unless_stopped(self, until: float | None = None) -> None:
        self._loop.turn(until)
        if self._stopped_by is not None:
            raise _Stopped

    # Running.

    def _start(self, program: str, env: dict[str, str]) -> None:
        memory = self._groups.get("memory")
        self._oom_kills = cgroups.oom_kills(memory) if memory is not None else 0
        self._started = True
        self._reaped_before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if self._agent is not None:
            self._agent.serve()
        else:
            for rank, own_env in self._contract.processes:
                ranked = environment.of_rank(env, rank, own_env)
                child = children.spawn(
                    program,
                    self._contract.argv,
                    ranked,
                    self._contract.cwd,
                    watcher=self._contract.watcher,
                )
                self._locals.append(child)
                self._read(child, rank)
        self._journal.insist("running", {"pids": [child.pid for child in self._locals]})
        self._ring()

    def _ring(self) -> None:
        """A byte on standard output tells the runtime that there is something to read."""
        if self._contract.gate == "stdin":
            try:
                os.write(1, b".")
            except OSError:
                pass  # nobody listens

    def _read(self, child: children.ChildProcess, rank: int) -> None:
        def stream(fd: int, name: str) -> OutputStream:
            return OutputStream(self._loop, fd, lambda lines: self._deliver(rank, name, lines))

        out, err = stream(child.out, "out"), stream(child.err, "err")
        out.sibling, err.sibling = err, out
        self._streams += [out, err]

    def _deliver(self, rank: int, stream: str, lines: list[bytes]) -> None:
        lines = self._steps.take(rank, lines)
        self._log.write(stream, rank, lines)
        if self._contract.echo:
            _echo(stream, lines)
        if self._steps.gave_up:
            self._steps.gave_up = False
            self._log.note(rank, "the step pattern took too long on a line: it is off from here")
        self._flush_steps()

    def _begin_looks(self) -> None:
        from . import looks

        try:
            self._looks = looks.begin(
                self._loop, self._journal.write, self._contract, self._addresses
            )
        except Exception as error:
            # A training is worth more than what is known of it.
            self._journal.write("looks", {"error": str(error)[:200]})
        if self._looks is not None and self._has_stepped:
            self._looks.first_step()

    def _stepped(self, fields: dict[str, Any], t: float) -> None:
        self._has_stepped = True
        if self._looks is not None:
            self._looks.first_step()
        self._journal.write("step", fields, t)

    def _flush_steps(self) -> None:
        due = self._steps.flush()
        if due is not None and not self._flush_set:
            self._flush_set = True
            self._loop.at(due, self._flush_due)

    def _flush_due(self) -> None:
        self._flush_set = False
        self._flush_steps()

    def _sample(self) -> None:
        due = time.monotonic()
        interval_s = self._take_sample()
        self._loop.at(due + interval_s, self._sample)

    def _take_sample(self) -> float:
        if self._sampler is None:
            self._sampler = self._new_sampler(self._all_ended())
        self._journal.write("sample", self._sampler.take())
        if self._sharing is not None:
            self._sharing.tell_cpus(budget.held_cpus())
        return self._sampler.interval_s

    def _new_sampler(self, over: bool) -> Sampler:
        """Not needed to start, so loaded when the processes already run.

        Once they have ended, `over`, they have no sockets or devices left to look at.
        """
        from .sample import Sampler

        if over:
            return Sampler(
                self._groups, None, self._contract.sample_interval_s, self._reaped_before, None
            )
        from . import gpus, linux, nics, sockets

        peers = sockets.peer_addresses(self._contract.peers, self._addresses)
        return Sampler(
            self._groups,
            sockets.PeerTraffic(peers, nics.find()) if linux.AVAILABLE else None,
            self._contract.sample_interval_s,
            self._reaped_before,
            gpus.find(self._contract.gpus),
        )

    # Ending.

    def _child_ended(self) -> None:
        for pid, code in children.reap():
            if self._agent is not None:
                self._agent.ended(pid, code)
            for child, (rank, _) in zip(self._locals, self._contract.processes):
                if child.pid == pid:
                    child.code = code
                    if code != 0 and self._failed is None and self._stopped_by is None:
                        self._failed = (rank, code)
                        self._stop(_RANK_FAILED, self._contract.grace_s)

    def _watch_runtime(self) -> None:
        rest = b""

        def readable() -> None:
            nonlocal rest
            data = os.read(0, 4096)
            if not data:
                self._loop.watch(0, None)
                grace_s = min(self._contract.grace_s, _GRACE_WITHOUT_BODY_S)
                self._stop(outcome.SUPERVISOR_GONE, grace_s)
                return
            *lines, rest = (rest + data).split(b"\n")
            if any(line.strip() == b"go" for line in lines):
                self._gate_open = True

        self._loop.watch(0, readable)

    def _told_to_stop(self, number: int) -> None:
        self._stop(signal.Signals(number).name, self._contract.grace_s)

    def _stop(self, by: str, grace_s: float) -> None:
        if self._stopped_by is None:
            self._stopped_by = by
            if self._started:
                children.signal_all(self._everything(), signal.SIGTERM)
        self._loop.at(time.monotonic() + grace_s, self._kill)

    def _kill(self) -> None:
        if self._everything():
            self._killed = True
            self._unkillable = not children.kill_all(self._roots())

    def _everything(self) -> list[int]:
        return children.below(self._roots())

    def _roots(self) -> list[int] | None:
        """None = all below the launcher; without /proc the processes that it knows."""
        if procfs.SUPPORTED:
            return None
        return [child.pid for child in self._locals if child.code is None]

    def _over(self) -> bool:
        if self._unkillable:
            return True
        if not self._all_ended():
            return False
        # Who asked for a stop grants the grace period to every descendant; otherwise what the
        # local processes leave behind has no claim to it.
        if self._stopped_by is not None and self._failed is None:
            return not self._everything()
        return self._agent is None

    def _all_ended(self) -> bool:
        return all(child.code is not None for child in self._locals)

    def _finish(self) -> int:
        if self._looks is not None:
            self._looks.stop()
        children.kill_all(self._roots())
        self._child_ended()
        deadline = time.monotonic() + _DRAIN_S
        for stream in self._streams:
            stream.hurry()
        while time.monotonic() < deadline and not all(stream.closed for stream in self._streams):
            self._loop.turn(deadline)
        self._steps.flush(all_of_it=True)
        self._take_sample()
        codes = [outcome.KILLED if child.code is None else child.code for child in self._locals]
        fields = dict(self._outcome(codes), codes=codes)
        self._log.own_up()
        if self._log.lost:
            fields["lost_log_lines"] = self._log.lost
        self._journal.last("exit", fields)
        code: int = fields["code"]
        return code

    def _outcome(self, codes: list[int]) -> dict[str, Any]:
        if self._failed is not None:
            rank, code = self._failed
            alone = len(codes) == 1
            if code == outcome.KILLED and self._over_memory():
                from .sample import largest_ended

                peak_bytes = largest_ended(resource.getrusage(resource.RUSAGE_CHILDREN))
                limit_bytes = self._budget.memory_bytes
                return outcome.out_of_memory(code, rank, alone, limit_bytes, peak_bytes)
            device_error = self._sampler.device_error if self._sampler is not None else ""
            return outcome.failed(code, rank, alone, device_error)
        if self._stopped_by is not None:
            return outcome.stopped(self._stopped_by, codes, self._killed)
        return outcome.done()

    def _over_memory(self) -> bool:
        memory = self._groups.get("memory")
        return memory is not None and cgroups.oom_kills(memory) > self._oom_kills


def _echo(stream: str, lines: list[bytes]) -> None:
    """What the processes print is the container's output too: `kubectl logs` shows it."""
    data = b"".join(line + b"\n" for line in lines)
    try:
        while data:
            data = data[os.write(1 if stream == "out" else 2, data) :]
    except OSError:
        pass
