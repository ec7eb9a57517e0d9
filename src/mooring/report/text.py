"""The report and the live table for a terminal, by rich."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mooring.model.amounts import duration, size
from mooring.model.status import MemberState, Phase
from mooring.report.attention import others, states_of, worth_showing
from mooring.report.columns import Column, Columns
from mooring.report.eta import about
from mooring.report.figures import MemberFigures, Report
from mooring.report.view import MemberView, RunView

_STATE_STYLE = {
    MemberState.WAITING: "dim",
    MemberState.STARTING: "yellow",
    MemberState.RUNNING: "green",
    MemberState.STOPPING: "yellow",
    MemberState.SUCCEEDED: "bold green",
    MemberState.FAILED: "bold red",
    MemberState.ENDED: "dim",
}
_PHASE_STYLE = {
    Phase.RUNNING.value: "green",
    Phase.SUCCEEDED.value: "bold green",
    Phase.FAILED.value: "bold red",
    Phase.STOPPED.value: "yellow",
    Phase.RESTARTING.value: "yellow",
    "Lost": "bold red",
}
#: A terminal shows so many members; the others are summed up in one row.
_MOST_ROWS = 40
_MOST_LISTED = 3


def number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _phase(phase: str) -> Text:
    return Text(phase, style=_PHASE_STYLE.get(phase, "bold"))


def live(
    view: RunView, elapsed_s: float, left_s: float | None = None, rows: int = _MOST_ROWS
) -> RenderableType:
    """The live view: a head line, progress, and a row a member, at most so many `rows`."""
    members = list(view.members.values())
    rows = min(rows, _MOST_ROWS)
    stall = _stall(view, rows // 2)
    parts: list[RenderableType] = [_head(view, elapsed_s, left_s, stall)]
    # Where some are hidden, two lines say so: they are better used for two more.
    rows -= len(stall)
    shown = members if len(members) <= rows + 2 else worth_showing(members, rows)
    if len(shown) < len(members):
        parts.append(Text(f"{len(members)} members: {states_of(members)}"))
    cells = [_live_row(member) for member in shown]
    parts.append(
        Columns(
            [
                replace(column, cells=[row[index] for row in cells])
                for index, column in enumerate(_LIVE_COLUMNS)
            ]
        )
    )
    if len(shown) < len(members):
        names = {member.name for member in shown}
        hidden = [member for member in members if member.name not in names]
        parts.append(Text(others(hidden), style="dim"))
    return Group(*parts)


#: Who it is and whether it runs never gives way. Widths are kept while figures grow and shrink.
_LIVE_COLUMNS = (
    Column("member", ()),
    Column("node", (), gives_way=7),
    Column("CPUs", (), gives_way=8),
    Column("state", (), least=7),
    Column("steps", (), right=True, gives_way=2, least=5),
    Column("examples/s", (), right=True, gives_way=1),
    Column("CPU %", (), right=True, gives_way=3),
    Column("in", (), right=True, gives_way=5, least=10),
    Column("out", (), right=True, gives_way=6, least=10),
    Column("memory", (), right=True, gives_way=4, least=9),
)


def _stall(view: RunView, most: int) -> list[Text]:
    """Why nothing goes on, and where processes are: a line each, as many as there is room for."""
    if not view.stall:
        return []
    lines = [Text(view.stall, style="bold yellow")]
    for said in view.stall_processes[:most]:
        lines.append(Text(f"  {said}", style="yellow", no_wrap=True, overflow="ellipsis"))
    hidden = len(view.stall_processes) - most
    return [*lines, Text(f"  … {hidden} more", style="yellow")] if hidden > 0 else lines


def _head(
    view: RunView, elapsed_s: float, left_s: float | None, warning: Sequence[Text]
) -> RenderableType:
    head = Text.assemble((view.run.info.id, "bold"), "  ", _phase(view.phase.value))
    if view.epoch:
        head.append(f"  epoch {view.epoch}", "yellow")
    head.append(f"  {duration(elapsed_s)}", "dim")
    loss = next((m.last_loss for m in view.members.values() if m.last_loss is not None), None)
    if loss is not None:
        head.append(f"  loss {loss:.4f}")
    progress = view.progress
    if progress is None:
        return Group(head, *warning, Text())
    done, total = progress
    bar = Table.grid(padding=(0, 1))
    bar.add_column(max_width=40)
    for _ in range(3):
        bar.add_column(no_wrap=True)
    rate = view.examples_per_s
    bar.add_row(
        ProgressBar(total=total, completed=min(done, total)),
        Text(f"{done:,}/{total:,} steps"),
        Text(_pace(view, rate), style="bold"),
        Text(f"{about(left_s)} left" if left_s is not None else ""),
    )
    waits = f"work done, waiting for {listed(view.waits_for)} to end" if view.waits_for else ""
    return Group(head, bar, *([Text(waits, style="bold")] if waits else []), *warning, Text())


def _pace(view: RunView, examples_per_s: float | None) -> str:
    if view.waits_for:
        return ""
    if examples_per_s is not None:
        return f"{number(examples_per_s)} examples/s"
    return f"{view.steps_per_s:.3g} steps/s" if view.steps_per_s else ""


def listed(names: Sequence[str]) -> str:
    """`a, b and 3 more`."""
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _live_row(member: MemberView) -> list[str | Text]:
    alive = member.state.alive
    cpu, rx, tx = member.cpu_rate.rate, member.rx_rate.rate, member.tx_rate.rate
    return [
        Text(member.name, style="bold"),
        member.node,
        member.cpus + ("*" if member.exclusive else ""),
        Text(member.state.value, style=_STATE_STYLE[member.state]),
        number(member.done_steps) if member.steps else "–",
        number(member.examples_per_s_now) if alive else "–",
        number(100 * cpu) if cpu is not None and alive else "–",
        f"{size(rx)}/s" if rx is not None and alive else "–",
        f"{size(tx)}/s" if tx is not None and alive else "–",
        size(member.rss_bytes) if member.rss_bytes else "–",
    ]


def report(figures: Report) -> RenderableType:
    """The report at the end of a run."""
    head = Text.assemble((figures.run, "bold"), "  ", _phase(figures.phase))
    if figures.reason:
        head.append(f"  {figures.reason}")
    lines = [head, Text(_summary(figures))]
    if figures.before is not None:
        lines.append(Text(figures.before.says, style="bold"))
        if figures.before.losses is not None:
            losses = figures.before.losses
            lines.append(Text(losses.says, style="yellow" if losses.worse else ""))
    parts: list[RenderableType] = [*lines, Text(), _members(figures)]
    if figures.servers:
        parts += [Text(), _servers(figures)]
    if figures.nodes:
        parts += [Text(), _nodes(figures)]
    if figures.cards:
        parts += [Text(), _cards(figures)]
    notes = [*figures.notes, *_member_notes(figures)]
    if figures.enforced_by:
        notes.insert(0, f"held by {figures.enforced_by}")
    parts += [Text()] + [Text(f"· {note}", style="dim") for note in notes]
    return Group(*parts)


def result_line(figures: Report) -> str:
    """How a run ended, in one line."""
    why = f": {figures.reason}" if figures.reason else ""
    return f"{figures.run} {figures.phase}{why} ({_summary(figures)})"


def _summary(figures: Report) -> str:
    said = [f"{duration(figures.wall_s)} in all"]
    if figures.steps:
        said.append(f"{figures.steps:,} steps")
    if figures.examples_per_s is not None:
        said.append(f"{figures.examples_per_s:,.0f} examples/s")
    if figures.first_loss is not None and figures.last_loss is not None:
        said.append(f"loss {figures.first_loss:.4f} → {figures.last_loss:.4f}")
    if figures.late:
        said.append(f"{duration(figures.after_last_step_s)} of it after the last step")
    if figures.restarts:
        times = "once" if figures.restarts == 1 else f"{figures.restarts} times"
        said.append(f"the gang restarted {times}")
    return ", ".join(said)


def _members(figures: Report) -> RenderableType:
    members = figures.members[:_MOST_ROWS]
    table = Columns(
        [
            Column("member", [Text(member.member, style="bold") for member in members]),
            Column("node", [member.node for member in members], group=1),
            Column("CPUs held", [_held(member) for member in members], group=1),
            Column("CPUs used", [member.cpus_used or "–" for member in members], group=1),
            Column("CPU s", [number(member.cpu_s, 1) for member in members], True, group=2),
            Column("CPU %", [number(member.cpu_percent) for member in members], True, group=2),
            Column("switches vol/invol", [_switches(member) for member in members], True, group=2),
            Column("in", [size(member.received_bytes) for member in members], True, group=3),
            Column("out", [size(member.sent_bytes) for member in members], True, group=3),
            Column("peak memory", [_peak(member) for member in members], True, group=4),
            Column("exit", [_exit(member) for member in members], True, group=4),
        ]
    )
    hidden = len(figures.members) - len(members)
    return Group(table, Text(f"… and {hidden} more (see -o json)")) if hidden else table


def _held(member: MemberFigures) -> str:
    return member.cpus_held + ("*" if member.exclusive else "")


def _peak(member: MemberFigures) -> str:
    return size(member.peak_memory_bytes) if member.peak_memory_bytes else "–"


def _switches(member: MemberFigures) -> str:
    return f"{member.context_switches_voluntary:,}/{member.context_switches_involuntary:,}"


def _exit(member: MemberFigures) -> Text:
    code = "–" if member.exit_code is None else str(member.exit_code)
    bad = member.state == MemberState.FAILED.value
    return Text(f"{code} {member.state}{_restarted(member)}", style="bold red" if bad else "")


def _restarted(member: MemberFigures) -> str:
    if not member.restarts:
        return ""
    return ", restarted" + (f" {member.restarts}×" if member.restarts > 1 else "")


def _servers(figures: Report) -> RenderableType:
    servers = figures.servers
    return Columns(
        [
            Column("through server", [server.member for server in servers]),
            Column("in", [size(server.received_bytes) for server in servers], True),
            Column("out", [size(server.sent_bytes) for server in servers], True),
            Column("share", [f"{100 * server.share:.0f} %" for server in servers], True),
        ]
    )


def _nodes(figures: Report) -> RenderableType:
    nodes = figures.nodes
    limits = [f"{node.nic_mbps} Mbit/s" if node.nic_mbps else "none" for node in nodes]
    return Columns(
        [
            Column("through NIC of", [node.node for node in nodes]),
            Column("in", [size(node.received_bytes) for node in nodes], True),
            Column("out", [size(node.sent_bytes) for node in nodes], True),
            Column("limit", limits, True),
        ]
    )


def _cards(figures: Report) -> RenderableType:
    cards = figures.cards[:_MOST_ROWS]
    received = [number(card.received_mbytes_per_s) for card in cards]
    sent = [number(card.sent_mbytes_per_s) for card in cards]
    return Columns(
        [
            Column("GPU of", [card.member for card in cards]),
            Column("GPU", [card.gpu for card in cards], True),
            Column("busy %", [number(card.busy_percent) for card in cards], True),
            Column("memory", [size(card.memory_used_bytes) for card in cards], True, group=1),
            Column("of", [size(card.memory_bytes) for card in cards], True, group=1),
            Column("PCIe in, MB/s", received, True, group=2),
            Column("PCIe out, MB/s", sent, True, group=2),
        ]
    )


def _member_notes(figures: Report) -> list[str]:
    """What launchers could not do, each once with the members it concerns."""
    said: dict[str, list[str]] = {}
    for member in figures.members:
        for note in member.notes:
            said.setdefault(note, []).append(member.member)
    return [f"{', '.join(names)}: {note}" for note, names in said.items()]
