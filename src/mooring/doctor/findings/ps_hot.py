"""One parameter server carries most of the traffic: one large variable lives on it whole."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain
from mooring.doctor.findings.measured import EVENTS, MEBIBYTE, SAMPLES
from mooring.doctor.findings.ps_dividing import divide
from mooring.doctor.findings.ps_shares import UNEVEN, card_of, shares_of
from mooring.doctor.registry import CheckPage, run_check
from mooring.variables import PartFacts

#: A card this full limits whoever is behind it.
_FULL = 0.5
_PAGE = CheckPage(
    why="Every worker asks the same server in every step: its network card and its CPU are the "
    "limit of the whole job, the other servers wait, and more servers change nothing.",
    measured="Bytes through each server's TCP sockets while the job trained (the kernel's own "
    "counts). Reported when the busiest has more than 1.5 times the mean of those that serve "
    "anything, with the largest variables that it holds.",
    fix="Divide large variables over all servers: `variables.placement: partitioned` in the job, "
    "which `mooring.tensorflow.strategy()` carries out; or a `variable_partitioner` for "
    "TensorFlow's own ParameterServerStrategy. Variables of Keras 3 cannot be divided: its tables "
    "have to become variables of TensorFlow.",
    not_when="There are only small variables, or the servers are on one machine and neither its "
    "card nor the server's CPU is busy: then it costs nothing yet.",
)


@run_check("ps-hot", "One parameter server carries most of the traffic", _PAGE)
def hot(facts: RunFacts) -> Iterator[Found]:
    shares = shares_of(facts)
    if shares.uneven <= UNEVEN:
        return
    busiest, share = shares.of[0]
    card = card_of(facts, busiest)
    full = card is not None and (card.busy or 0.0) >= _FULL
    evidence = [
        Figure(f"share of {member.name}", 100 * part, "%", SAMPLES, (member.name,))
        for member, part in shares.of[:8]
    ]
    evidence.append(Figure("busiest ÷ mean", shares.uneven, "", SAMPLES, (busiest.name,)))
    guilty = _largest(facts, busiest.name)
    evidence += [
        Figure(f"{part.variable} on {busiest.name}", part.size_bytes / MEBIBYTE, "MiB", SAMPLES)
        for part in guilty
    ]
    if card is not None:
        evidence.append(Figure(f"card of {card.node}", 100 * (card.busy or 0.0), "% full", EVENTS))
    lost = 1 - 1 / shares.uneven
    beside = [worker.name for worker in facts.workers if worker.node == busiest.node]
    yield Found(
        says=f"{busiest.name} moves {100 * share:.0f} % of all bytes "
        f"through {len(shares.of)} servers" + _because(guilty),
        evidence=tuple(evidence),
        remedy=divide(facts, "divide large variables over all servers"),
        confidence=Confidence.CERTAIN if full else Confidence.LIKELY,
        weight=min(0.95, lost) if full else 0.5 * lost,
        members=(busiest.name,),
        gain=_gain(lost, (card.busy or 0.0) if card is not None and full else None, beside),
    )


def _gain(lost: float, busy: float | None, beside: list[str]) -> Gain:
    """What an even load frees of the busiest card. Workers on its own node reach it without the
    card: divided, most of their bytes go through it, and nobody knows beforehand what that costs.
    """
    if busy is None:
        return Gain(
            1.0, 1.0, "neither its card nor its CPU is full yet; it will be with more workers"
        )
    freed = Gain.of_freed(0.3 * busy * lost, busy * lost, "the busiest card would carry the mean")
    if not beside:
        return freed
    return Gain(
        0.6,
        freed.high,
        f"not clear: {', '.join(beside[:4])} on the same node would lose a near server",
    )


def _largest(facts: RunFacts, server: str) -> list[PartFacts]:
    """What the server holds that makes most of its traffic: the largest variables, if told."""
    index = int(server.rpartition("-")[2])
    held = sorted(
        (part for part in facts.variables if part.server == index), key=lambda one: -one.size_bytes
    )
    return [part for part in held[:3] if part.size_bytes >= held[0].size_bytes / 4]


def _because(guilty: list[PartFacts]) -> str:
    return f": {', '.join(part.variable for part in guilty)}" if guilty else ""
