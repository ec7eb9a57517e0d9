"""Bytes a step of each variable, and what other placements would make of them: pure arithmetic.

A variable that is used whole (a kernel, a bias) is read and its gradient sent back in every step:
twice its size. Of a table only rows move; how many is not known, so what a server moved beyond its
whole variables is divided among the tables on it, by the width of their rows and the id (8 bytes)
that goes with each. A table that a lookup pulls whole moves once its size besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mooring.sharding import Layout, Variable, VariablePlacement, imbalance, lay_out, shards
from mooring.variables.facts import Facts, PartFacts

_ID_BYTES = 8
#: A placement has to even out at least so much of the busiest server to be worth a change.
_WORTH = 0.1


@dataclass(frozen=True)
class VariableFigures:
    """One variable over all its parts; step_bytes None: nothing measured and nothing to go by."""

    name: str
    shape: tuple[int, ...]
    size_bytes: int
    servers: tuple[int, ...]
    step_bytes: float | None
    pulled_whole: bool


@dataclass(frozen=True)
class ServerLoad:
    server: int
    size_bytes: float
    step_bytes: float
    share: float


@dataclass(frozen=True)
class PlacementFigures:
    """What a placement would give; `measure` is what its bytes are: per step, or held."""

    placement: str
    server_bytes: tuple[float, ...]
    imbalance: float


@dataclass(frozen=True)
class RowSplit:
    """A variable to be cut by rows, and into how many parts."""

    variable: str
    parts: int


@dataclass(frozen=True)
class PlacementComparison:
    """by_step: figures are bytes a step; otherwise only sizes are known, and they stand for it."""

    source: str
    steps: int | None
    by_step: bool
    variables: tuple[VariableFigures, ...]
    servers: tuple[ServerLoad, ...]
    now: float | None
    placements: tuple[PlacementFigures, ...]
    best: str
    cuts: tuple[RowSplit, ...]
    worth: bool
    holders: tuple[str, ...] = ()


def compare(facts: Facts) -> PlacementComparison:
    moved = attribute(facts)
    whole = _together(moved)
    by_step = any(part.step_bytes for part in moved)
    models = [
        Variable(
            one.name,
            one.shape[0] if one.shape else 1,
            one.size_bytes,
            (one.step_bytes or 0.0) if by_step else float(one.size_bytes),
        )
        for one in whole
    ]
    layouts = [lay_out(models, facts.servers, placement) for placement in VariablePlacement]
    servers = _servers(facts, moved, by_step) if facts.placed else ()
    now = imbalance([server.step_bytes for server in servers]) if servers else None
    # On a tie the simpler one: fewer parts are fewer messages.
    best = min(layouts, key=lambda layout: (round(layout.imbalance, 2), len(layout.parts)))
    reference = now if now is not None else layouts[0].imbalance
    cuts = _cuts(models, facts.servers, best)
    return PlacementComparison(
        source=facts.source,
        steps=facts.steps,
        by_step=by_step,
        variables=tuple(
            sorted(whole, key=lambda one: (one.step_bytes or 0.0, one.size_bytes), reverse=True)
        ),
        servers=servers,
        now=now,
        placements=tuple(
            PlacementFigures(layout.placement.value, tuple(layout.step_bytes()), layout.imbalance)
            for layout in layouts
        ),
        best=best.placement.value,
        cuts=cuts,
        worth=best.imbalance < reference - _WORTH,
        holders=facts.holders,
    )


def attribute(facts: Facts) -> list[PartFacts]:
    """Every part with its bytes a step, where anything is known about them."""
    parts = list(facts.parts)
    if facts.server_bytes is None:
        return parts
    known = [part.step_bytes if part.step_bytes is not None else _certain(part) for part in parts]
    given: list[PartFacts] = list(parts)
    for server, moved in enumerate(facts.server_bytes):
        here = [index for index, part in enumerate(parts) if part.server == server]
        tables = [i for i in here if parts[i].by_rows and parts[i].step_bytes is None]
        rest = max(0.0, moved - sum(known[index] for index in here))
        # Of a table that was cut, each part meets about its share of the rows that are used.
        weights = {i: (parts[i].row_bytes + _ID_BYTES) * _share(parts[i], parts) for i in tables}
        total = sum(weights.values())
        for index in here:
            own = known[index]
            if index in weights and total:
                own += rest * weights[index] / total
            given[index] = replace(parts[index], step_bytes=own)
    return given


def _certain(part: PartFacts) -> float:
    """What surely moves in a step, whatever rows are used."""
    if not part.by_rows:
        return 2.0 * part.size_bytes
    return float(part.size_bytes) if part.whole else 0.0


def _share(part: PartFacts, parts: Iterable[PartFacts]) -> float:
    rows = sum(other.rows for other in parts if other.variable == part.variable)
    return part.rows / rows if rows else 1.0


def _together(parts: Iterable[PartFacts]) -> list[VariableFigures]:
    found: dict[str, list[PartFacts]] = {}
    for part in parts:
        found.setdefault(part.variable, []).append(part)
    return [_variable(name, own) for name, own in found.items()]


def _variable(name: str, parts: list[PartFacts]) -> VariableFigures:
    first = parts[0]
    shape = (sum(part.rows for part in parts), *first.shape[1:]) if first.shape else ()
    moved = [part.step_bytes for part in parts if part.step_bytes is not None]
    return VariableFigures(
        name=name,
        shape=shape,
        size_bytes=sum(part.size_bytes for part in parts),
        servers=tuple(part.server for part in parts if part.server is not None),
        step_bytes=sum(moved) if moved else None,
        pulled_whole=any(part.whole for part in parts),
    )


def _servers(facts: Facts, parts: list[PartFacts], by_step: bool) -> tuple[ServerLoad, ...]:
    sizes = _by_server(facts.servers, ((part.server, part.size_bytes) for part in parts))
    if facts.server_bytes is not None:
        moved: Mapping[int, float] = dict(enumerate(facts.server_bytes))
    elif by_step:
        moved = _by_server(facts.servers, ((part.server, part.step_bytes or 0) for part in parts))
    else:
        moved = sizes
    total = sum(moved.values())
    return tuple(
        ServerLoad(server, sizes[server], moved[server], moved[server] / total if total else 0.0)
        for server in range(facts.servers)
    )


def _by_server(servers: int, loads: Iterable[tuple[int | None, float]]) -> dict[int, float]:
    found = dict.fromkeys(range(servers), 0.0)
    for server, load in loads:
        if server is not None:
            found[server] += load
    return found


def _cuts(models: list[Variable], servers: int, best: Layout) -> tuple[RowSplit, ...]:
    if best.placement is not VariablePlacement.PARTITIONED:
        return ()
    counts = [(model.name, shards(model.rows, model.size_bytes, servers)) for model in models]
    return tuple(RowSplit(name, count) for name, count in counts if count > 1)
