"""One process would be faster than all of them together."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import ACCOUNT, names_of, trained
from mooring.doctor.findings.exchanging import exchange_of
from mooring.doctor.findings.measured import JOB
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, DoesNotApply, run_check

#: Below this the difference is not worth a change.
_LEAST_GAIN = 1.3
_PAGE = CheckPage(
    why="Members that exchange after every step pay for it in every step. With little work in a "
    "step they are slower together than one of them alone, and hold many times its CPUs.",
    measured="Looks at all ranks: the share of a step for which each computes. One process alone "
    "needs as long as all ranks compute one after the other. Reported when that is less than a "
    "step takes now by 1.3 times, no card is full, nobody is late and CPUs are free.",
    fix="One process; or more work for each exchange: larger batches, gradient accumulation.",
    not_when="The model or its data need the memory of several machines, or the job is a trial of "
    "something larger.",
)


@run_check(
    "one-process",
    "One process would be faster",
    _PAGE,
    Causes(anywhere=frozenset({"batch-small", "comm-bound", "cpu-threads"})),
)
def one_process(facts: RunFacts) -> Iterator[Found]:
    ranks = trained(facts)
    if len(ranks) < 2 or facts.servers:
        raise DoesNotApply("no ranks that exchange after each step")
    exchange = exchange_of(facts)
    if exchange is None:
        return
    alone = exchange.ranks * exchange.computing
    if alone <= 0 or 1 / alone < _LEAST_GAIN:
        return
    yield Found(
        says=f"each of {exchange.ranks} ranks computes {100 * exchange.computing:.0f} % of a step: "
        f"one process would do the work of all in {100 * alone:.0f} % of the time",
        evidence=(
            Figure("computes", 100 * exchange.computing, "%", ACCOUNT, names_of(ranks)),
            Figure("waits for others", 100 * exchange.waiting, "%", ACCOUNT, names_of(ranks)),
            Figure("ranks", exchange.ranks, "", JOB),
        ),
        remedy=Remedy(
            "train in one process, or exchange less often (larger batches, accumulation)",
            where="the roles of the job",
        ),
        confidence=Confidence.LIKELY,
        weight=min(0.9, 1 - alone),
        members=names_of(ranks),
        gain=Gain(1.0, min(10.0, 1 / alone), "the ranks' computing, one after the other"),
    )
