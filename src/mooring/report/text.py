"""The report and the live table for a terminal, by rich."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mooring.model.status import MemberState, Phase
from mooring.report.figures import Before, MemberFigures, Report
from mooring.report.losses import WORSE_PERCENT
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


def size(amount_bytes: float) -> str:
    """`1536` -> `1.5 KiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount_bytes) < 1024 or unit == "TiB":
            return f"{amount_bytes:.0f} {unit}" if unit == "B" else f"{amount_bytes:.1f} {unit}"
        amount_bytes /= 1024
    raise AssertionError


def number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _phase(phase: str) -> Text:
    return Text(phase, style=_PHASE_STYLE.get(phase, "bold"))


def live(view: RunView, elapsed_s: float) -> RenderableType:
    """The live view: a head line, progress, and a row a member."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("member", "node", "CPUs", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("steps", "examples/s", "CPU %", "in", "out", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    members = list(view.members.values())
    for member in members[:_MOST_ROWS]:
        table.add_row(*_live_row(member))
    parts: list[RenderableType] = [_head(view, elapsed_s), table]
    if len(members) > _MOST_ROWS:
        rest = members[_MOST_ROWS:]
        running = sum(member.state is MemberState.RUNNING for member in rest)
        parts.append(Text(f"… and {len(rest)} more members, {running} running", style="dim"))
    return Group(*parts)


def _head(view: RunView, elapsed_s: float) -> RenderableType:
    head = Text.assemble((view.run.info.id, "bold"), "  ", _phase(view.phase.value))
    if view.epoch:
        head.append(f"  epoch {view.epoch}", "yellow")
    head.append(f"  {duration(elapsed_s)}", "dim")
    loss = next((m.last_loss for m in view.members.values() if m.last_loss is not None), None)
    if loss is not None:
        head.append(f"  loss {loss:.4f}")
    progress = view.progress
    if progress is None:
        return Group(head, Text())
    done, total = progress
    bar = Table.grid(padding=(0, 1))
    rate = view.examples_per_s
    bar.add_row(
        ProgressBar(total=total, completed=min(done, total), width=40),
        Text(f"{done:,}/{total:,} steps"),
        Text(f"{number(rate)} examples/s" if rate is not None else "", style="bold"),
    )
    return Group(head, bar, Text())


def _live_row(member: MemberView) -> list[RenderableType]:
    alive = member.state.alive
    cpu, rx, tx = member.cpu_rate.rate, member.rx_rate.rate, member.tx_rate.rate
    return [
        Text(member.name, style="bold"),
        member.node,
        member.cpus + ("*" if member.exclusive else ""),
        Text(member.state.value, style=_STATE_STYLE[member.state]),
        number(member.done_steps) if member.steps else "–",
        number(member.example_rate.rate) if alive else "–",
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
        lines.append(Text(_before(figures, figures.before), style="bold"))
        lines += [Text(said, style=style) for said, style in _losses(figures.before)]
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
    if figures.restarts:
        times = "once" if figures.restarts == 1 else f"{figures.restarts} times"
        said.append(f"the gang restarted {times}")
    return ", ".join(said)


def _before(figures: Report, before: Before) -> str:
    done = ", ".join(before.remedies) or "no remedy"
    if figures.faster is None:
        return (
            f"after {done} (probe {before.probe}); nobody reports examples, so no speed to compare"
        )
    return (
        f"{before.examples_per_s:,.0f} → {figures.examples_per_s:,.0f} examples/s "
        f"({figures.faster:.2f}×) after {done} (probe {before.probe})"
    )


def _losses(before: Before) -> Iterator[tuple[str, str]]:
    """What the remedies did to learning: one of them may change the optimizer."""
    if before.loss is None or before.loss_now is None or before.loss_ratio is None:
        return
    change = 100 * (before.loss_ratio - 1)
    said = (
        f"loss after {before.loss.examples:,} examples: {before.loss.loss:.4f} → "
        f"{before.loss_now.loss:.4f} ({abs(change):.1f} % {'higher' if change > 0 else 'lower'})"
    )
    worse = change > WORSE_PERCENT
    yield (
        said + ("; look at it before you keep the remedies" if worse else ""),
        ("yellow" if worse else ""),
    )


def _members(figures: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("member", "node", "CPUs held", "CPUs used"):
        table.add_column(name, no_wrap=True)
    for name in ("CPU s", "CPU %", "switches vol/invol", "in", "out", "peak memory", "exit"):
        table.add_column(name, justify="right", no_wrap=True)
    for member in figures.members[:_MOST_ROWS]:
        code = "–" if member.exit_code is None else str(member.exit_code)
        bad = member.state == MemberState.FAILED.value
        table.add_row(
            Text(member.member, style="bold"),
            member.node,
            member.cpus_held + ("*" if member.exclusive else ""),
            member.cpus_used or "–",
            number(member.cpu_s, 1),
            number(member.cpu_percent),
            f"{member.context_switches_voluntary:,}/{member.context_switches_involuntary:,}",
            size(member.received_bytes),
            size(member.sent_bytes),
            size(member.peak_memory_bytes),
            Text(f"{code} {member.state}{_restarted(member)}", style="bold red" if bad else ""),
        )
    if len(figures.members) > _MOST_ROWS:
        table.add_row(f"… and {len(figures.members) - _MOST_ROWS} more (see -o json)")
    return table


def _restarted(member: MemberFigures) -> str:
    if not member.restarts:
        return ""
    return ", restarted" + (f" {member.restarts}×" if member.restarts > 1 else "")


def _servers(figures: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("through server", no_wrap=True)
    for name in ("in", "out", "share"):
        table.add_column(name, justify="right")
    for server in figures.servers:
        table.add_row(
            server.member,
            size(server.received_bytes),
            size(server.sent_bytes),
            f"{100 * server.share:.0f} %",
        )
    return table


def _nodes(figures: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("through NIC of", no_wrap=True)
    for name in ("in", "out", "limit"):
        table.add_column(name, justify="right")
    for node in figures.nodes:
        limit = f"{node.nic_mbps} Mbit/s" if node.nic_mbps else "none"
        table.add_row(node.node, size(node.received_bytes), size(node.sent_bytes), limit)
    return table


def _cards(figures: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("GPU of", no_wrap=True)
    for name in ("GPU", "busy %", "memory", "of", "PCIe in, MB/s", "PCIe out, MB/s"):
        table.add_column(name, justify="right")
    for card in figures.cards[:_MOST_ROWS]:
        table.add_row(
            card.member,
            card.gpu,
            number(card.busy_percent),
            size(card.memory_used_bytes),
            size(card.memory_bytes),
            number(card.received_mbytes_per_s),
            number(card.sent_mbytes_per_s),
        )
    return table


def _member_notes(figures: Report) -> list[str]:
    """What launchers could not do, each once with the members it concerns."""
    said: dict[str, list[str]] = {}
    for member in figures.members:
        for note in member.notes:
            said.setdefault(note, []).append(member.member)
    return [f"{', '.join(names)}: {note}" for note, names in said.items()]
