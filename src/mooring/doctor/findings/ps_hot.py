"""One parameter server carries most of the traffic: one large variable lives on it whole."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import EVENTS, SAMPLES, servers_of, used
from mooring.doctor.registry import Page, Unknown, run_check

#: The busiest server's bytes against the mean. Partitioned tables were seen at 1.0 to 1.25 (small
#: variables still go round-robin); one table on one of two servers at 1.7, of four at 2.5 and more.
_UNEVEN = 1.5
#: Below this a run moves so little that its shares mean nothing.
LEAST_BYTES_PER_S = 100_000
#: A server below this part of the mean serves nothing that matters.
IDLE = 0.02
_PAGE = Page(
    why="Every worker asks the same server in every step: its network card and its CPU are the "
    "limit of the whole job, the other servers wait, and more servers change nothing.",
    measured="Bytes through each server's TCP sockets while the job trained (the kernel's own "
    "counts). Reported when the busiest has more than 1.5 times the mean of those that serve "
    "anything.",
    fix="Divide large variables over all servers. With TensorFlow: a `variable_partitioner` for "
    "ParameterServerStrategy; only what is larger than the smallest shard is divided.",
    not_when="There are only small variables, or the servers are on one machine and neither its "
    "card nor the server's CPU is busy: then it costs nothing yet.",
)
_SNIPPET = """partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
    min_shard_bytes=256 << 10, max_shards={servers})
strategy = tf.distribute.ParameterServerStrategy(cluster, variable_partitioner=partitioner)
"""


@run_check("ps-hot", "One parameter server carries most of the traffic", _PAGE)
def hot(facts: RunFacts) -> Iterator[Found]:
    measured = used(servers_of(facts))
    if len(measured) < 2:
        raise Unknown("there is one parameter server only")
    rates = {member.name: use.moved_bytes / use.span_s for member, use in measured}
    if sum(rates.values()) < LEAST_BYTES_PER_S:
        raise Unknown("the servers moved next to nothing")
    mean_of_all = sum(rates.values()) / len(rates)
    serving = [rate for rate in rates.values() if rate > IDLE * mean_of_all]
    # A single server that serves while all others idle is the extreme of the same cause.
    mean = sum(serving) / len(serving) if len(serving) > 1 else mean_of_all
    busiest = max(rates, key=lambda name: rates[name])
    uneven = rates[busiest] / mean
    if uneven <= _UNEVEN:
        return
    nic = next((one for one in facts.nics if one.node == _node_of(facts, busiest)), None)
    full = nic is not None and nic.busy is not None and nic.busy >= 0.7
    total = sum(rates.values())
    evidence = [
        Figure(f"share of {name}", 100 * rate / total, "%", SAMPLES, (name,))
        for name, rate in sorted(rates.items(), key=lambda pair: -pair[1])[:8]
    ]
    evidence.append(Figure("busiest ÷ mean", uneven, "", SAMPLES, (busiest,)))
    if nic is not None and nic.busy is not None:
        evidence.append(Figure(f"card of {nic.node}", 100 * nic.busy, "% full", EVENTS))
    yield Found(
        says=f"{busiest} moves {100 * rates[busiest] / total:.0f} % of all bytes "
        f"through {len(rates)} servers",
        evidence=tuple(evidence),
        remedy=Remedy(
            "divide large variables over all servers",
            code=_SNIPPET.format(servers=len(rates)),
            where="where the program makes its strategy",
        ),
        confidence=Confidence.CERTAIN if full else Confidence.LIKELY,
        weight=min(0.95, 1 - 1 / uneven) if full else 0.5 * (1 - 1 / uneven),
        members=(busiest,),
        gain=Gain(1.0, uneven, "the busiest server's card would carry the mean instead")
        if full
        else Gain(
            1.0, 1.0, "neither its card nor its CPU is full yet; it will be with more workers"
        ),
    )


def _node_of(facts: RunFacts, member: str) -> str:
    return next(one.node for one in facts.members if one.name == member)
