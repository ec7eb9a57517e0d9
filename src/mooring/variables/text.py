"""A comparison of placements as tables."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mooring.model.amounts import size
from mooring.variables.compare import PlacementComparison

_MOST_SHOWN = 20


def render(found: PlacementComparison) -> RenderableType:
    unit = "bytes/step" if found.by_step else "bytes held"
    blocks: list[RenderableType] = [Text(_head(found)), Text(), _variables(found)]
    if found.servers:
        blocks += [Text(), _servers(found, unit)]
    blocks += [Text(), _placements(found, unit), Text(), Text(_advice(found))]
    return Group(*blocks)


def _head(found: PlacementComparison) -> str:
    counted = f"{found.source}: {len(found.variables)} variables"
    if found.steps and found.by_step:
        return f"{counted}, {found.steps:,} steps"
    return counted if found.by_step else f"{counted}; nothing measured: sizes stand for traffic"


def _variables(found: PlacementComparison) -> Table:
    table = _table("variable", "shape", "size", "servers", "bytes/step", "share", "")
    total = sum(variable.step_bytes or 0.0 for variable in found.variables)
    for row in found.variables[:_MOST_SHOWN]:
        moved = row.step_bytes
        table.add_row(
            row.name,
            " × ".join(f"{each:,}" for each in row.shape) or "scalar",
            size(row.size_bytes),
            ", ".join(str(each) for each in sorted(set(row.servers))) or "–",
            "–" if moved is None else size(moved),
            f"{moved / total:.0%}" if moved is not None and total else "–",
            "pulled whole" if row.pulled_whole else "",
        )
    if len(found.variables) > _MOST_SHOWN:
        table.add_row(f"and {len(found.variables) - _MOST_SHOWN} smaller ones")
    return table


def _servers(found: PlacementComparison, unit: str) -> Table:
    table = _table("server", "holds", unit, "share")
    for row in found.servers:
        name = found.holders[row.server] if found.holders else f"ps-{row.server}"
        table.add_row(name, size(row.size_bytes), size(row.step_bytes), f"{row.share:.0%}")
    return table


def _placements(found: PlacementComparison, unit: str) -> Table:
    table = _table("placement", "busiest / mean", f"{unit} of each server")
    if found.now is not None:
        table.add_row("as it is", f"{found.now:.2f}", "")
    for row in found.placements:
        loads = ", ".join(size(each) for each in row.server_bytes)
        table.add_row(row.placement, f"{row.imbalance:.2f}", loads)
    return table


def _advice(found: PlacementComparison) -> str:
    if not found.worth:
        return "No other placement evens out the servers by more than a tenth."
    text = f"Most even: variables.placement: {found.best}."
    if found.cuts:
        cuts = ", ".join(f"{cut.variable} in {cut.parts} parts" for cut in found.cuts)
        text += f" It cuts {cuts}."
    return text


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=name not in ("servers", "bytes/step of each server"))
    return table
