"""Variables of a run: what its programs told their launchers, and what the servers moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mooring.model.errors import BadInput
from mooring.record import RunRecord
from mooring.report.view import RunView
from mooring.variables.facts import Facts, Maker, PartFacts
from mooring.wire import read_journal
from mooring.wire.members import Variable, Variables


def read_run(run: RunRecord) -> Facts:
    """Raises BadInput for a run whose program tells no variables."""
    view = RunView(run)
    view.update()
    servers = sorted(
        (member for member in view.members.values() if member.role in view.server_roles),
        key=lambda member: int(member.name.rsplit("-", 1)[1]),
    )
    files = map(run.sample_file, view.members)
    parts = parts_of(record for file in files for record in read_journal(file, Variables))
    if not parts:
        accepted = (
            "a TensorFlow run with parameter servers, or a PyTorch run with PartitionedEmbedding"
        )
        found = "nothing about its variables"
        raise BadInput.at("moor variables", f"RUN {run.info.id}", found, accepted)
    ranks = 0 if servers else 1 + max(part.server or 0 for part in parts)
    # Ranks of one member share its sockets: what each of them moved is not known.
    holders = servers or [member for member in view.members.values() if ranks == len(view.members)]
    steps = max((member.done_steps for member in view.members.values()), default=0)
    moved = [float(member.totals.rx_bytes + member.totals.tx_bytes) for member in holders]
    measured = steps > 0 and sum(moved) > 0
    return Facts(
        source=run.info.id,
        servers=len(servers) or ranks,
        parts=tuple(parts),
        server_bytes=tuple(each / steps for each in moved) if measured else None,
        steps=steps or None,
        holders=tuple(server.name for server in servers)
        or tuple(f"rank-{one}" for one in range(ranks)),
    )


def parts_of(told: Iterable[Variables]) -> list[PartFacts]:
    """The parts of all variables; of several starts the last counts."""
    records = list(told)
    last = max((record.start for record in records), default=(0, 0))
    parts: dict[tuple[str, int], PartFacts] = {}
    uses: dict[str, list[Variable]] = {}
    for record in records:
        for variable in record.variables if record.start == last else ():
            if variable.whole is not None:
                uses.setdefault(variable.name, []).append(variable)
            part = _part(variable)
            if part is not None:
                parts[variable.name, part.part] = part
    return [_with_uses(part, uses.get(part.variable, [])) for part in parts.values()]


def _with_uses(part: PartFacts, uses: Sequence[Variable]) -> PartFacts:
    """Of several functions that use it (training, judging) the worst counts."""
    if not uses:
        return part
    return replace(
        part,
        looked_up=True,
        whole=any(use.whole for use in uses),
        written_whole=any(use.written == "whole" for use in uses),
        keras_layer=any(use.layer == "keras" for use in uses),
        keras_adam=any(use.optimizer == "keras-adam" for use in uses),
    )


def _part(variable: Variable) -> PartFacts | None:
    if not variable.name or variable.shape is None:
        return None
    if variable.size_bytes is None or variable.server is None:
        return None
    return PartFacts(
        variable.name,
        variable.shape,
        variable.size_bytes,
        variable.server,
        variable.part,
        maker=Maker(variable.maker) if variable.maker in tuple(Maker) else None,
        trainable=variable.trainable,
    )
