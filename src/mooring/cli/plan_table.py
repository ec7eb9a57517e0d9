"""A plan as a table: a row a member, and the losing nodes by reason."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from mooring.cli.console import counted
from mooring.model.cluster import format_cpus
from mooring.model.member import Gang
from mooring.model.plan import Placement, Plan
from mooring.report.columns import Columns

#: More losing nodes than this are counted instead of named.
_MOST_NAMED = 4


def plan_table(gang: Gang, plan: Plan) -> RenderableType:
    members = {member.id: member for member in gang.members}
    names = ["member", "needs", "node", "CPUs", "cell", "GPUs"]
    told = any(placement.verdicts for placement in plan.placements)
    rows: list[tuple[str | Text, ...]] = []
    for placement in plan.placements:
        slot = placement.slot
        rows.append(
            (
                Text(placement.member.name, style="bold"),
                str(members[placement.member].resources),
                slot.node,
                format_cpus(slot.cpus) + ("*" if slot.exclusive else ""),
                format_cpus(slot.cells) or "–",
                slot.gpus_said or "–",
                _losers(placement) if told else "",
            )
        )
    for member in plan.waiting:
        needs = str(members[member].resources)
        rows.append((Text(member.name, style="bold"), needs, "waits", "", "", "", ""))
    table = Columns.of_rows(names, rows, detail="other nodes" if told else "")
    nodes = {placement.slot.node for placement in plan.placements}
    placed = f"{counted(len(plan.placements), 'member')} on {counted(len(nodes), 'node')}"
    head = f"{gang.job}: {placed}, {gang.preset.value}"
    notes = [Text(f"· {note}", style="dim") for note in plan.notes]
    if any(placement.slot.exclusive for placement in plan.placements):
        notes.append(Text("· * held exclusively", style="dim"))
    return Group(Text(head), Text(), table, *([Text(), *notes] if notes else []))


def _losers(placement: Placement) -> str:
    """Why each losing node lost: by reason where it was refused, else by its lower score."""
    by_reason: dict[str, list[str]] = {}
    for verdict in placement.verdicts:
        if verdict.node == placement.slot.node:
            continue
        reasons = verdict.reasons or (f"scored {verdict.total:.2f}",)
        for reason in reasons:
            by_reason.setdefault(reason, []).append(verdict.node)
    winner = next((v for v in placement.verdicts if v.node == placement.slot.node), None)
    said = []
    for reason, nodes in by_reason.items():
        named = ", ".join(nodes) if len(nodes) <= _MOST_NAMED else f"{len(nodes)} nodes"
        said.append(f"{named}: {reason}")
    if said and winner is not None and any("scored" in part for part in said):
        said.insert(0, f"won with {winner.total:.2f}")
    return "; ".join(said) or "–"
