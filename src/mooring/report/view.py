"""A running or ended run as its files tell it, kept up to date by reading what was appended.

`moor run` shows its own run through this, and so does any other `moor` process: both see the
same, and it still works when the run's process has been killed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mooring.model.cluster import format_cpus
from mooring.model.status import MemberState, Phase
from mooring.record import RunRecord, Tail
from mooring.record.journal import JsonValue, Line
from mooring.record.plan_file import is_member, read_plan
from mooring.report.cards import Cards
from mooring.report.eta import estimate_s

#: Rates are taken over this many seconds: long enough for slow steps, short enough to be live.
_RATE_WINDOW_S = 10.0
#: The time left is told from a longer one: it should not follow every hiccup.
_STEPS_WINDOW_S = 60.0
#: So long after the last step of all a run that still runs is worth a word.
_QUIET_S = 2.0
_PHASES = {phase.value: phase for phase in Phase}
_STATES = {state.value: state for state in MemberState}
#: What a member's last record says of a disk that was full.
_LOST = {"lost_log_lines": "lines of its log", "lost_records": "records of its measurements"}


@dataclass
class Series:
    """The last seconds of a running total, for its rate."""

    points: deque[tuple[float, float]] = field(default_factory=deque)
    window_s: float = _RATE_WINDOW_S

    def add(self, at_s: float, total: float) -> None:
        self.points.append((at_s, total))
        while len(self.points) > 2 and at_s - self.points[0][0] > self.window_s:
            self.points.popleft()

    @property
    def rate(self) -> float | None:
        if len(self.points) < 2:
            return None
        (t0, v0), (t1, v1) = self.points[0], self.points[-1]
        return (v1 - v0) / (t1 - t0) if t1 > t0 else None


@dataclass
class MemberView:
    """One member: where it is, what it holds, what it did. Totals cover all its attempts."""

    name: str
    role: str
    node: str = ""
    cpus: str = ""
    exclusive: bool = False
    gpus: tuple[int, ...] = ()
    state: MemberState = MemberState.WAITING
    epoch: int = 0
    attempt: int = 0
    exit_code: int | None = None
    reason: str = ""
    steps_by_rank: dict[int, int] = field(default_factory=dict)
    last_step: int | None = None
    total_steps: int | None = None
    examples: int = 0
    first_report_s: float | None = None
    last_report_s: float | None = None
    first_report_examples: int = 0
    running_s: float | None = None
    processes: int = 1
    sampled_until_s: float | None = None
    first_loss: float | None = None
    last_loss: float | None = None
    used_cpus: dict[str, int] = field(default_factory=dict)
    budget: Line = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    totals: dict[str, float] = field(default_factory=dict)
    peers: dict[str, tuple[int, int]] = field(default_factory=dict)
    cards: Cards = field(default_factory=Cards)
    rss_bytes: int = 0
    peak_rss_bytes: int = 0
    threads: int = 0
    example_rate: Series = field(default_factory=Series)
    cpu_rate: Series = field(default_factory=Series)
    rx_rate: Series = field(default_factory=Series)
    tx_rate: Series = field(default_factory=Series)
    steps_made: Series = field(default_factory=lambda: Series(window_s=_STEPS_WINDOW_S))
    _stepped: tuple[int, int] = (0, 0)
    _before: dict[str, float] = field(default_factory=dict)
    _peers_before: dict[str, tuple[int, int]] = field(default_factory=dict)
    _sampled: tuple[int, int] = (0, 0)

    @property
    def steps(self) -> int:
        """Reports of the local process that is furthest: ranks step together."""
        return max(self.steps_by_rank.values(), default=0)

    @property
    def done_steps(self) -> int:
        """As the member counts them itself, or as many as it reported."""
        return self.last_step if self.last_step is not None else self.steps

    @property
    def examples_per_s_now(self) -> float | None:
        """Over its last reports; 0 once they are long overdue."""
        points = self.example_rate.points
        if len(points) < 2:
            return None
        usual_s = (points[-1][0] - points[0][0]) / (len(points) - 1)
        overdue_s = (self.sampled_until_s or 0.0) - points[-1][0]
        return 0.0 if overdue_s > _RATE_WINDOW_S + 3 * usual_s else self.example_rate.rate

    @property
    def cpu_span_s(self) -> float | None:
        """Seconds between the start of its processes and the last sample."""
        if self.running_s is None or self.sampled_until_s is None:
            return None
        return self.sampled_until_s - self.running_s

    def apply(self, line: Line) -> None:
        kind = line.get("kind")
        at_s = _float(line.get("t")) or 0.0
        if kind == "ready":
            budget = line.get("budget")
            self.budget = budget if isinstance(budget, dict) else {}
            notes = line.get("notes")
            self.notes = tuple(str(note) for note in notes) if isinstance(notes, list) else ()
        elif kind == "running":
            pids = line.get("pids")
            self.processes = len(pids) if isinstance(pids, list) else 1
            self.running_s = at_s if self.running_s is None else self.running_s
        elif kind == "step":
            self._step(line, at_s)
        elif kind == "sample":
            self._sample(line, at_s)
        elif kind == "program":
            self._program(line)
        elif kind == "exit":
            for field, what in _LOST.items():
                if lost := _int(line.get(field)):
                    self.notes = (*self.notes, f"{lost} {what} were lost: the disk was full")

    def _program(self, line: Line) -> None:
        """What could not be seen inside the program."""
        said = line.get("program")
        note = said.get("note") if isinstance(said, dict) else None
        if isinstance(note, str) and note not in self.notes:
            self.notes = (*self.notes, note)

    def _step(self, line: Line, at_s: float) -> None:
        rank = _int(line.get("r")) or 0
        self.steps_by_rank[rank] = self.steps_by_rank.get(rank, 0) + (_int(line.get("n")) or 1)
        step = _int(line.get("step"))
        self.last_step = step if step is not None else self.last_step
        self.total_steps = _int(line.get("total")) or self.total_steps
        self.examples += _int(line.get("examples")) or 0
        if self.first_report_s is None:
            self.first_report_s, self.first_report_examples = at_s, self.examples
        self.last_report_s = at_s
        if self.examples:
            self.example_rate.add(at_s, self.examples)
        self._count_steps(line, at_s)
        loss = _float(line.get("loss"))
        if loss is not None:
            self.first_loss = loss if self.first_loss is None else self.first_loss
            self.last_loss = loss

    def _count_steps(self, line: Line, at_s: float) -> None:
        attempt, made = _attempt(line), self.steps_made
        if attempt != self._stepped:
            # A restart goes back to a checkpoint, or to the beginning.
            self._stepped = attempt
            made.points.clear()
        # Local ranks report one after another: the furthest counts.
        made.add(at_s, max(self.done_steps, made.points[-1][1] if made.points else 0))

    def _sample(self, line: Line, at_s: float) -> None:
        attempt = _attempt(line)
        if attempt != self._sampled:
            # A restart counts from zero: keep what the attempts before it had done.
            self._before, self._peers_before = dict(self.totals), dict(self.peers)
            self._sampled = attempt
        for key in _TOTALS:
            value = _float(line.get(key))
            if value is not None:
                self.totals[key] = self._before.get(key, 0.0) + value
        peers = line.get("peers")
        for peer, pair in peers.items() if isinstance(peers, dict) else ():
            if isinstance(pair, list) and len(pair) == 2:
                tx, rx = self._peers_before.get(peer, (0, 0))
                self.peers[peer] = (tx + (_int(pair[0]) or 0), rx + (_int(pair[1]) or 0))
        used = line.get("last_cpus")
        for cpu, threads in used.items() if isinstance(used, dict) else ():
            self.used_cpus[cpu] = self.used_cpus.get(cpu, 0) + (_int(threads) or 0)
        self.cards.add(line)
        self.sampled_until_s = at_s
        self.rss_bytes = _int(line.get("rss_bytes")) or 0
        self.peak_rss_bytes = max(
            self.peak_rss_bytes, self.rss_bytes, _int(line.get("peak_rss_bytes")) or 0
        )
        self.threads = _int(line.get("threads")) or 0
        self.cpu_rate.add(at_s, self.totals.get("cpu_s", 0.0))
        self.rx_rate.add(at_s, self.totals.get("rx_bytes", 0.0))
        self.tx_rate.add(at_s, self.totals.get("tx_bytes", 0.0))


_TOTALS = (
    "cpu_s",
    "ctx_vol",
    "ctx_invol",
    "rx_bytes",
    "tx_bytes",
    "throttled_s",
    "nr_throttled",
    "launcher_cpu_s",
)


class RunView:
    """A run's members, phase and NIC counters. `update` reads what is new."""

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.phase = Phase.PENDING
        self.reason = ""
        self.enforces = ""
        self.notes: tuple[str, ...] = ()
        self.lost_notes = 0
        self.preset = ""
        self.server_roles: tuple[str, ...] = ()
        self.total_steps: int | None = None
        self.epoch = 0
        self.started_s: float | None = None
        self.ended_s: float | None = None
        self.members: dict[str, MemberView] = {}
        self.stall = ""
        """The last standstill in a sentence; empty once it has gone on."""
        self.stalls: tuple[str, ...] = ()
        self._hung = False
        self.stall_processes: tuple[str, ...] = ()
        """Where each process was then, in a line each."""
        self.node_bytes: dict[str, tuple[int, int]] = {}
        self.node_nic_mbps: dict[str, int | None] = {}
        self._plan_stamp: float | None = None
        self._events = Tail(run.events_file)
        self._samples: dict[str, Tail] = {}

    def update(self) -> None:
        self._read_plan()
        for line in self._events.read():
            self._event(line)
        for name, member in self.members.items():
            tail = self._samples.setdefault(name, Tail(self.run.sample_file(name)))
            while lines := tail.read():
                for line in lines:
                    member.apply(line)
            if self.phase.final and member.state.alive:
                # The run was killed and could not write how its members ended.
                member.state = MemberState.ENDED

    @property
    def lost(self) -> bool:
        """The run's process is gone without having written an end."""
        return not self.phase.final and not self.run.alive()

    @property
    def examples_per_s(self) -> float | None:
        """Now, over all members that report steps."""
        rates = [rate for m in self.members.values() if (rate := m.examples_per_s_now) is not None]
        return sum(rates) if rates else None

    @property
    def steps_per_s(self) -> float | None:
        """Now, of the member that steps fastest: members step together."""
        rates = [rate for m in self.members.values() if (rate := m.steps_made.rate) is not None]
        return max(rates, default=None)

    @property
    def last_step_s(self) -> float | None:
        """When any member reported its last step so far."""
        times = [m.last_report_s for m in self.members.values() if m.last_report_s is not None]
        return max(times, default=None)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Members that have not ended although every announced step was done some time ago."""
        reporters = [member for member in self.members.values() if member.steps]
        totals = [member.total_steps or self.total_steps for member in reporters]
        last_s, sampled_s = self.last_step_s, [m.sampled_until_s or 0.0 for m in reporters]
        if last_s is None or max(sampled_s) - last_s < _QUIET_S:
            return ()
        pairs = zip(reporters, totals, strict=True)
        if any(total is None or member.done_steps < total for member, total in pairs):
            return ()
        return tuple(member.name for member in reporters if member.state.alive)

    @property
    def progress(self) -> tuple[int, int] | None:
        """(steps done, steps in all) of the member that is furthest, if it says."""
        known = [
            (member.done_steps, member.total_steps or self.total_steps)
            for member in self.members.values()
            if member.steps and (member.total_steps or self.total_steps)
        ]
        if not known:
            return None
        done, total = max(known, key=lambda pair: pair[0])
        return done, total or 0

    def left_s(self, now_s: float) -> float | None:
        """Seconds until all steps are made at the pace of the last minute, if that can be told."""
        known = [member for member in self.members.values() if member.steps]
        furthest = max(known, key=lambda member: member.done_steps, default=None)
        total = (furthest.total_steps or self.total_steps) if furthest is not None else None
        if furthest is None or not total or self.phase is not Phase.RUNNING:
            return None
        return estimate_s(list(furthest.steps_made.points), total, now_s)

    def _read_plan(self) -> None:
        try:
            stamp = self.run.plan_file.stat().st_mtime
            if stamp == self._plan_stamp:
                return
        except OSError:
            return
        plan = read_plan(self.run.plan_file)
        if plan is None:
            return
        self._plan_stamp = stamp
        self.notes = plan.notes
        self.preset = plan.preset
        self.server_roles = plan.server_roles
        for holding in plan.holdings:
            member = self._member(holding.member.name, holding.member.role)
            member.node = holding.slot.node
            member.cpus = format_cpus(holding.slot.cpus)
            member.exclusive = holding.slot.exclusive
            member.gpus = holding.slot.gpus
        for name in plan.waiting:
            self._member(name, name.rsplit("-", 1)[0])

    def _member(self, name: str, role: str) -> MemberView:
        return self.members.setdefault(name, MemberView(name, role))

    def _event(self, line: Line) -> None:
        kind = line.get("kind")
        if kind == "phase" and (phase := _PHASES.get(str(line.get("phase")))) is not None:
            self.phase = phase
            self.reason = str(line.get("reason") or "")
            self.epoch = _int(line.get("epoch")) or self.epoch
            at_s = _float(line.get("t"))
            if self.phase is Phase.STARTING and self.started_s is None:
                self.started_s = at_s
            if self.phase is not Phase.RUNNING:
                self.stall = ""
            if self.phase.final:
                self.ended_s = at_s
        elif kind == "member" and (state := _STATES.get(str(line.get("state")))) is not None:
            name = str(line.get("member"))
            if not is_member(name):
                return
            member = self._member(name, name.rsplit("-", 1)[0])
            member.state = state
            member.epoch = _int(line.get("epoch")) or 0
            member.attempt = _int(line.get("attempt")) or 0
            member.exit_code = _int(line.get("exit_code"))
            member.reason = str(line.get("reason") or "")
        elif kind == "body":
            self.enforces = str(line.get("enforces") or "")
            self.total_steps = _int(line.get("total_steps"))
            nodes = line.get("nodes")
            if isinstance(nodes, dict):
                self.node_nic_mbps = {name: _int(mbps) for name, mbps in nodes.items()}
        elif kind == "lost" and (notes := _int(line.get("notes"))):
            self.lost_notes = notes
        elif kind == "stall":
            self._stall(line)
        elif kind == "nodes":
            nodes = line.get("bytes")
            for name, pair in nodes.items() if isinstance(nodes, dict) else ():
                if isinstance(pair, list) and len(pair) == 2:
                    self.node_bytes[name] = (_int(pair[0]) or 0, _int(pair[1]) or 0)

    def _stall(self, line: Line) -> None:
        if line.get("over"):
            if self.stall and not self._hung:
                # A long evaluation, as it turned out: nothing to keep.
                self.stalls = self.stalls[:-1]
            self.stall = ""
            return
        self._hung = line.get("hang") is True
        says = str(line.get("says") or "")
        # A standstill that is looked at again is the same one.
        kept = self.stalls[:-1] if self.stall else self.stalls
        file = f"; everybody's stacks: {line['file']}" if line.get("file") else ""
        self.stall, self.stalls = says, (*kept, says + file)
        told = line.get("processes")
        self.stall_processes = tuple(
            _stack_line(one) for one in (told if isinstance(told, list) else ()) if one
        )


def _stack_line(process: JsonValue) -> str:
    """`worker-1: wait_for_licence (train.py:8) ← main (train.py:19)`."""
    if not isinstance(process, dict):
        return ""
    stack = process.get("stack")
    calls = " ← ".join(str(call) for call in stack) if isinstance(stack, list) else ""
    told = calls or " ".join(str(process.get(key) or "") for key in ("state", "kernel", "note"))
    return f"{process.get('member')}: {told.strip()}"


def _attempt(line: Line) -> tuple[int, int]:
    return _int(line.get("epoch")) or 0, _int(line.get("attempt")) or 0


def _int(value: JsonValue) -> int | None:
    # What a journal holds is finite, as its reader sees to.
    return int(value) if isinstance(value, int | float) else None


def _float(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None
