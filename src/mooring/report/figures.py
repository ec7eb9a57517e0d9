"""The figures of a run: one value that the terminal, JSON and HTML reports are made from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from mooring.model.cluster import format_cpus
from mooring.model.numbers import whole_number
from mooring.record.journal import JsonValue
from mooring.report.cards import CardFigures
from mooring.report.gains import Losses, Speeds
from mooring.report.view import MemberView, RunView

#: Evaluating and saving take a moment; more than this after the last step is worth a word.
_LATE_S = 5.0


@dataclass(frozen=True)
class MemberFigures:
    """What one member held and used, over all its attempts."""

    member: str
    role: str
    node: str
    cpus_held: str
    exclusive: bool
    cpus_used: str
    gpus: tuple[int, ...]
    threads_budget: int | None
    state: str
    exit_code: int | None
    reason: str
    restarts: int
    steps: int
    examples: int
    examples_per_s: float | None
    cpu_s: float
    cpu_percent: float | None
    context_switches_voluntary: int
    context_switches_involuntary: int
    throttled_s: float
    peak_memory_bytes: int | None
    received_bytes: int
    sent_bytes: int
    launcher_cpu_s: float
    notes: tuple[str, ...]
    cause: str | None = None
    """How its last attempt ended, in a word: `out-of-memory`, `stopped` …"""


@dataclass(frozen=True)
class ServerFigures:
    """Bytes through one parameter server, and its share of all that servers moved."""

    member: str
    received_bytes: int
    sent_bytes: int
    share: float


@dataclass(frozen=True)
class NodeFigures:
    """Bytes through a virtual node's NIC."""

    node: str
    nic_mbps: int | None
    received_bytes: int
    sent_bytes: int


@dataclass(frozen=True)
class Flow:
    """TCP payload between two members, as the side that opened the connections counted it."""

    opened_by: str
    peer: str
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True)
class Before:
    """What was changed by `--fix` before a run, and what probes before and after it showed."""

    probe: str
    remedies: tuple[str, ...]
    speeds: Speeds | None = None
    losses: Losses | None = None
    note: str = ""
    """Why there is no speed, or why there are fewer probes than were wanted."""

    @property
    def says(self) -> str:
        """One line: what the probes showed of the remedies."""
        done = f"after {', '.join(self.remedies)}"
        shown = f"{self.speeds.says}, {done}" if self.speeds is not None else done
        return f"{shown}; {self.note}" if self.note else shown


@dataclass(frozen=True)
class Report:
    run: str
    job: str
    phase: str
    reason: str
    placement: str
    started_s: float | None
    wall_s: float | None
    restarts: int
    steps: int
    examples: int
    examples_per_s: float | None
    first_loss: float | None
    last_loss: float | None
    members: tuple[MemberFigures, ...]
    servers: tuple[ServerFigures, ...]
    nodes: tuple[NodeFigures, ...]
    flows: tuple[Flow, ...]
    enforced_by: str
    notes: tuple[str, ...]
    before: Before | None = None
    cards: tuple[CardFigures, ...] = ()
    after_last_step_s: float | None = None
    """From the last step that anybody reported to the end of the run."""

    @property
    def late(self) -> bool:
        """Whether the end took long enough to be worth a word."""
        return self.after_last_step_s is not None and self.after_last_step_s > _LATE_S

    def document(self) -> dict[str, JsonValue]:
        return asdict(self)


def _lost_notes(view: RunView) -> list[str]:
    lost = view.lost_notes
    return [f"{lost} entries of the run's own record were lost: the disk was full"] if lost else []


def figures(view: RunView) -> Report:
    """The report of a run as far as it has come. Call `view.update()` before."""
    members = list(view.members.values())
    losses = [member for member in members if member.first_loss is not None]
    reporters = [member for member in members if member.steps]
    phase, reason = view.phase.value, view.reason
    if view.lost:
        phase, reason = "Lost", "its `moor` process was killed; `moor clean` removes what it left"
    return Report(
        run=view.run.info.id,
        job=view.run.info.job,
        phase=phase,
        reason=reason,
        placement=view.preset,
        started_s=view.started_s,
        wall_s=_wall_s(view),
        restarts=view.epoch,
        steps=max((member.done_steps for member in reporters), default=0),
        examples=sum(member.examples for member in members),
        examples_per_s=_examples_per_s(reporters),
        first_loss=losses[0].first_loss if losses else None,
        last_loss=losses[0].last_loss if losses else None,
        members=tuple(_member(member) for member in members),
        servers=_servers(view),
        nodes=tuple(
            NodeFigures(name, view.node_nic_mbps.get(name), *view.node_bytes[name])
            for name in sorted(view.node_bytes)
        ),
        flows=tuple(_flows(members)),
        enforced_by=view.enforces,
        notes=(*view.notes, *view.stalls, *_lost_notes(view)),
        before=_before(view),
        after_last_step_s=_after_last_step_s(view),
        cards=tuple(card for member in members for card in member.cards.figures(member.name)),
    )


def _before(view: RunView) -> Before | None:
    try:
        told = json.loads(view.run.fix_file.read_text(encoding="utf-8"))
        speeds, losses = told["speeds"], told["losses"]
        if speeds is not None:
            pairs = tuple((float(one), float(other)) for one, other in speeds["pairs"])
            speeds = Speeds(pairs, str(speeds["unit"]))
        if losses is not None:
            losses = Losses(losses["examples"], tuple(losses["before"]), tuple(losses["after"]))
        return Before(told["probe"], tuple(told["remedies"]), speeds, losses, told["note"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return None


def _after_last_step_s(view: RunView) -> float | None:
    if view.ended_s is None or view.last_step_s is None:
        return None
    return max(0.0, view.ended_s - view.last_step_s - _unreported_s(view))


def _unreported_s(view: RunView) -> float:
    """Of a program that reports now and then: how long it may have gone on stepping unseen."""
    last = max(view.members.values(), key=lambda member: member.last_report_s or 0.0)
    points = last.steps_made.points
    total = last.total_steps or view.total_steps
    if len(points) < 2 or (total is not None and last.done_steps >= total):
        return 0.0
    return (points[-1][0] - points[0][0]) / (len(points) - 1)


def _wall_s(view: RunView) -> float | None:
    if view.started_s is None:
        return None
    times = [time for m in view.members.values() for time in (m.last_report_s, m.sampled_until_s)]
    last_s = max((time for time in times if time is not None), default=view.started_s)
    ended_s = view.ended_s or last_s
    return ended_s - view.started_s


def _examples_per_s(members: Iterable[MemberView]) -> float | None:
    rates = [rate for member in members if (rate := _rate(member)) is not None]
    return sum(rates) if rates else None


def _rate(member: MemberView) -> float | None:
    """From the first report to the last: tracing and warm-up before the first do not count.

    A member that reported once is measured from the start of its processes.
    """
    if member.first_report_s is None or member.last_report_s is None or not member.examples:
        return None
    if member.last_report_s > member.first_report_s:
        done = member.examples - member.first_report_examples
        return done / (member.last_report_s - member.first_report_s)
    if member.running_s is not None and member.last_report_s > member.running_s:
        return member.examples / (member.last_report_s - member.running_s)
    return None


def _member(member: MemberView) -> MemberFigures:
    totals = member.totals
    sampled_s = member.cpu_span_s
    return MemberFigures(
        member=member.name,
        role=member.role,
        node=member.node,
        cpus_held=member.cpus,
        exclusive=member.exclusive,
        cpus_used=_used(member.used_cpus),
        gpus=member.gpus,
        threads_budget=member.budget.threads,
        state=member.state.value,
        exit_code=member.exit_code,
        reason=member.reason,
        restarts=member.attempt,
        steps=member.done_steps,
        examples=member.examples,
        examples_per_s=_rate(member),
        cpu_s=totals.cpu_s,
        cpu_percent=100 * totals.cpu_s / sampled_s if sampled_s else None,
        context_switches_voluntary=totals.ctx_vol,
        context_switches_involuntary=totals.ctx_invol,
        throttled_s=totals.throttled_s,
        peak_memory_bytes=member.peak_rss_bytes or None,
        received_bytes=totals.rx_bytes,
        sent_bytes=totals.tx_bytes,
        launcher_cpu_s=totals.launcher_cpu_s,
        notes=member.notes,
        cause=member.cause.value if member.cause is not None else None,
    )


def _used(counts: dict[str, int]) -> str:
    """CPUs that threads were seen on, as the kernel writes CPU lists."""
    return format_cpus(
        {
            number
            for cpu, threads in counts.items()
            if threads and (number := whole_number(cpu)) is not None
        }
    )


def _servers(view: RunView) -> tuple[ServerFigures, ...]:
    moved = [
        (m.name, m.totals.rx_bytes, m.totals.tx_bytes)
        for m in view.members.values()
        if m.role in view.server_roles
    ]
    total = sum(rx + tx for _, rx, tx in moved)
    return tuple(
        ServerFigures(name, rx, tx, (rx + tx) / total if total else 0.0) for name, rx, tx in moved
    )


def _flows(members: Iterable[MemberView]) -> Iterable[Flow]:
    for member in members:
        for peer, (tx, rx) in sorted(member.peers.items()):
            if peer not in ("other", member.name) and (tx or rx):
                yield Flow(member.name, peer, tx, rx)
