"""A running or ended run as its files tell it, kept up to date by reading what was appended.

`moor run` shows its own run through this, and so does any other `moor` process: both see the
same, and it still works when the run's process has been killed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.model.cluster import format_cpus
from mooring.model.status import MemberState, Phase
from mooring.record import RunRecord
from mooring.record.plan_file import is_member, read_plan
from mooring.report.cards import Cards
from mooring.report.eta import estimate_s
from mooring.wire import JournalTail, Record
from mooring.wire.events import (
    MemberChanged,
    NodeTraffic,
    NotesLost,
    PhaseChanged,
    StallNoted,
    Surroundings,
)
from mooring.wire.members import Budget, EndCause, Exit, Program, Ready, Running, Step
from mooring.wire.samples import Sample

#: Rates are taken over this many seconds: long enough for slow steps, short enough to be live.
_RATE_WINDOW_S = 10.0
#: The time left is told from a longer one: it should not follow every hiccup.
_STEPS_WINDOW_S = 60.0
#: So long after the last step of all a run that still runs is worth a word.
_QUIET_S = 2.0


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


@dataclass(frozen=True)
class Totals:
    """What a member used, over all its attempts."""

    cpu_s: float = 0.0
    ctx_vol: int = 0
    ctx_invol: int = 0
    rx_bytes: int = 0
    tx_bytes: int = 0
    throttled_s: float = 0.0
    launcher_cpu_s: float = 0.0


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
    cause: EndCause | None = None
    """How its last attempt ended, as its launcher says."""
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
    budget: Budget = field(default_factory=Budget)
    notes: tuple[str, ...] = ()
    totals: Totals = field(default_factory=Totals)
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
    _before: Totals = field(default_factory=Totals)
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

    def apply(self, record: Record) -> None:
        match record:
            case Sample():
                self._sample(record)
            case Step():
                self._step(record)
            case Ready():
                self.budget, self.notes, self.cause = record.budget, record.notes, None
            case Running():
                self.processes = len(record.pids)
                self.running_s = record.t if self.running_s is None else self.running_s
            case Program():
                # What could not be seen inside the program.
                note = record.program.note
                if note and note not in self.notes:
                    self.notes = (*self.notes, note)
            case Exit():
                self.cause = record.cause
                for lost, what in (
                    (record.lost_log_lines, "lines of its log"),
                    (record.lost_records, "records of its measurements"),
                ):
                    if lost:
                        self.notes = (*self.notes, f"{lost} {what} were lost: the disk was full")

    def _step(self, step: Step) -> None:
        self.steps_by_rank[step.rank] = self.steps_by_rank.get(step.rank, 0) + step.count
        self.last_step = step.step if step.step is not None else self.last_step
        self.total_steps = step.total or self.total_steps
        self.examples += step.examples or 0
        if self.first_report_s is None:
            self.first_report_s, self.first_report_examples = step.t, self.examples
        self.last_report_s = step.t
        if self.examples:
            self.example_rate.add(step.t, self.examples)
        self._count_steps(step)
        if step.loss is not None:
            self.first_loss = step.loss if self.first_loss is None else self.first_loss
            self.last_loss = step.loss

    def _count_steps(self, step: Step) -> None:
        made = self.steps_made
        if step.start != self._stepped:
            # A restart goes back to a checkpoint, or to the beginning.
            self._stepped = step.start
            made.points.clear()
        # Local ranks report one after another: the furthest counts.
        made.add(step.t, max(self.done_steps, made.points[-1][1] if made.points else 0))

    def _sample(self, sample: Sample) -> None:
        if sample.start != self._sampled:
            # A restart counts from zero: keep what the attempts before it had done.
            self._before, self._peers_before = self.totals, dict(self.peers)
            self._sampled = sample.start
        before = self._before
        self.totals = Totals(
            before.cpu_s + sample.cpu_s,
            before.ctx_vol + sample.ctx_vol,
            before.ctx_invol + sample.ctx_invol,
            before.rx_bytes + sample.rx_bytes,
            before.tx_bytes + sample.tx_bytes,
            before.throttled_s + sample.throttled_s,
            before.launcher_cpu_s + sample.launcher_cpu_s,
        )
        for peer, (sent, received) in sample.peers.items():
            sent_before, received_before = self._peers_before.get(peer, (0, 0))
            self.peers[peer] = (sent_before + sent, received_before + received)
        for cpu, threads in sample.last_cpus.items():
            self.used_cpus[cpu] = self.used_cpus.get(cpu, 0) + threads
        self.cards.add(sample)
        self.sampled_until_s = sample.t
        self.rss_bytes = sample.rss_bytes
        self.peak_rss_bytes = max(self.peak_rss_bytes, sample.rss_bytes, sample.peak_rss_bytes)
        self.threads = sample.threads
        self.cpu_rate.add(sample.t, self.totals.cpu_s)
        self.rx_rate.add(sample.t, self.totals.rx_bytes)
        self.tx_rate.add(sample.t, self.totals.tx_bytes)


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
        self.node_nic_mbps: Mapping[str, int | None] = {}
        self._plan_stamp: float | None = None
        self._events = JournalTail(run.events_file)
        self._samples: dict[str, JournalTail] = {}

    def update(self) -> None:
        """Raises BadInput if a newer Mooring wrote the run's files."""
        self._read_plan()
        for record in self._events.read():
            self._event(record)
        for name, member in self.members.items():
            tail = self._samples.setdefault(name, JournalTail(self.run.sample_file(name)))
            while records := tail.read():
                for record in records:
                    member.apply(record)
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

    def _event(self, record: Record) -> None:
        match record:
            case PhaseChanged():
                self._phase(record)
            case MemberChanged():
                if is_member(record.member):
                    member = self._member(record.member, record.member.rsplit("-", 1)[0])
                    member.state = record.state
                    member.epoch, member.attempt = record.epoch, record.attempt
                    member.exit_code, member.reason = record.exit_code, record.reason
            case Surroundings():
                self.enforces, self.total_steps = record.enforces, record.total_steps
                self.node_nic_mbps = record.nic_mbps
            case NotesLost():
                self.lost_notes = record.notes or self.lost_notes
            case StallNoted():
                self._stall(record)
            case NodeTraffic():
                self.node_bytes.update(record.moved_bytes)

    def _phase(self, record: PhaseChanged) -> None:
        self.phase, self.reason = record.phase, record.reason
        self.epoch = record.epoch or self.epoch
        if self.phase is Phase.STARTING and self.started_s is None:
            self.started_s = record.t
        if self.phase is not Phase.RUNNING:
            self.stall = ""
        if self.phase.final:
            self.ended_s = record.t

    def _stall(self, stall: StallNoted) -> None:
        if stall.over:
            if self.stall and not self._hung:
                # A long evaluation, as it turned out: nothing to keep.
                self.stalls = self.stalls[:-1]
            self.stall = ""
            return
        self._hung = stall.hang
        # A standstill that is looked at again is the same one.
        kept = self.stalls[:-1] if self.stall else self.stalls
        file = f"; everybody's stacks: {stall.file}" if stall.file else ""
        self.stall, self.stalls = stall.says, (*kept, stall.says + file)
        self.stall_processes = tuple(f"{each.member}: {each.place}" for each in stall.processes)
