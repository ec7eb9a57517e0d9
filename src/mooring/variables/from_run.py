"""Variables of a run: what its programs told their launchers, and what the servers moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mooring.model.errors import BadInput
from mooring.record import RunRecord
from mooring.record.journal import JsonValue, Line, read_lines
from mooring.report.view import RunView
from mooring.variables.facts import Facts, Maker, PartFacts


def read_run(run: RunRecord) -> Facts:
    """Raises BadInput for a run whose program tells no variables."""
    view = RunView(run)
    view.update()
    servers = sorted(
        (member for member in view.members.values() if member.role in view.server_roles),
        key=lambda member: int(member.name.rsplit("-", 1)[1]),
    )
    lines = [line for name in view.members for line in read_lines(run.sample_file(name))]
    parts = parts_of(lines)
    if not parts:
        accepted = (
            "a TensorFlow run with parameter servers, or a PyTorch run with PartitionedEmbedding"
        )
        found = "nothing about its variables"
        raise BadInput.at("moor variables", f"RUN {run.info.id}", found, accepted)
    ranks = 0 if servers else 1 + max(part.server or 0 for part in parts)
    # Ranks of one member share its sockets: what each of them moved is not known.
    holders = servers or [one for one in view.members.values() if ranks == len(view.members)]
    steps = max((member.done_steps for member in view.members.values()), default=0)
    moved = [
        member.totals.get("rx_bytes", 0.0) + member.totals.get("tx_bytes", 0.0)
        for member in holders
    ]
    measured = steps > 0 and sum(moved) > 0
    return Facts(
        source=run.info.id,
        servers=len(servers) or ranks,
        parts=tuple(parts),
        server_bytes=tuple(each / steps for each in moved) if measured else None,
        steps=steps or None,
        holders=tuple(one.name for one in servers) or tuple(f"rank-{one}" for one in range(ranks)),
    )


def parts_of(lines: list[Line]) -> list[PartFacts]:
    """The parts as the lines of kind `variables` tell them; of several starts the last counts."""
    told = [line for line in lines if line.get("kind") == "variables"]
    last = max((_start(line) for line in told), default=(0, 0))
    found: dict[tuple[str, int], PartFacts] = {}
    uses: dict[str, list[Mapping[str, JsonValue]]] = {}
    for line in told:
        listed = line.get("variables")
        for one in listed if isinstance(listed, list) and _start(line) == last else ():
            if not isinstance(one, dict) or not isinstance(name := one.get("name"), str):
                continue
            if isinstance(one.get("whole"), bool):
                uses.setdefault(name, []).append(one)
            part = _part(name, one)
            if part is not None:
                found[name, part.part] = part
    return [_with_uses(part, uses.get(part.variable, [])) for part in found.values()]


def _with_uses(part: PartFacts, uses: Sequence[Mapping[str, JsonValue]]) -> PartFacts:
    """Of several functions that use it (training, judging) the worst counts."""
    if not uses:
        return part
    return replace(
        part,
        looked_up=True,
        whole=any(one.get("whole") is True for one in uses),
        written_whole=any(one.get("written") == "whole" for one in uses),
        keras_layer=any(one.get("layer") == "keras" for one in uses),
        keras_adam=any(one.get("optimizer") == "keras-adam" for one in uses),
    )


def _start(line: Line) -> tuple[int, int]:
    epoch, attempt = line.get("epoch"), line.get("attempt")
    return (
        epoch if isinstance(epoch, int) else 0,
        attempt if isinstance(attempt, int) else 0,
    )


def _part(name: str, one: Mapping[str, JsonValue]) -> PartFacts | None:
    shape, size, server, part = (one.get(key) for key in ("shape", "bytes", "server", "part"))
    if not isinstance(shape, list) or not isinstance(size, int) or not isinstance(server, int):
        return None
    dimensions = tuple(each for each in shape if isinstance(each, int))
    maker = one.get("maker")
    return PartFacts(
        name,
        dimensions,
        size,
        server,
        part if isinstance(part, int) else 0,
        maker=Maker(maker) if maker in tuple(Maker) else None,
        trainable=one.get("trainable") is not False,
    )
