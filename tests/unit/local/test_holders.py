"""A refusal on one machine names the runs that hold what is missing, and nothing else."""

from __future__ import annotations

import pytest

from mooring.backends.local.holders import RunHoldings, held_sentences
from mooring.model.cluster import Cpu, Gpu, Node
from mooring.model.member import MemberId
from mooring.model.plan import NodeVerdict, Refusal, Slot
from mooring.model.resources import Resources
from mooring.record.plan_file import Holding

GIB = 1 << 30
MACHINE = Node(
    "here",
    tuple(Cpu(i, i, 0, 0, 0) for i in range(4)),
    4000,
    16 * GIB - 4096,
    gpus=(Gpu(0, 0), Gpu(1, 0)),
)
ALONE = RunHoldings(
    "alone-1",
    tuple(
        Holding(
            MemberId("worker", index),
            Resources(1000, 2 * GIB),
            Slot("here", (index,), exclusive=True),
        )
        for index in range(2)
    ),
)
SHARES = RunHoldings(
    "shares-2",
    (
        Holding(MemberId("ps", 0), Resources(500), Slot("here", (2, 3))),
        Holding(MemberId("worker", 0), Resources(gpus=1), Slot("here", (2, 3), gpus=(1,))),
    ),
)
IDLE = RunHoldings("idle-3", (Holding(MemberId("worker", 0), Resources(), Slot("here", (2, 3))),))


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            "insufficient cpu (has 0 whole CPUs to give away)",
            [
                "CPUs 0-1 of 0-3 held by run alone-1 (worker-0, worker-1), exclusively",
                "500m of 4 cpu held by run shares-2 (ps-0)",
            ],
        ),
        (
            "insufficient memory (has 1Gi free)",
            ["4Gi of 16Gi memory held by run alone-1 (worker-0, worker-1)"],
        ),
        ("insufficient gpu (has 1 free)", ["GPUs 1 of 0-1 held by run shares-2 (worker-0)"]),
        ("port in use (2222)", []),
    ],
)
def test_who_holds_what_is_missing(reason: str, said: list[str]) -> None:
    refusal = Refusal("job", "no", MemberId("worker", 0), (NodeVerdict("here", (reason,)),))
    assert list(held_sentences(refusal, MACHINE, [ALONE, SHARES, IDLE])) == said
    assert list(held_sentences(refusal, MACHINE, [IDLE])) == []


def test_many_runs_are_counted() -> None:
    many = [RunHoldings(f"run-{i}", (ALONE.holdings[0],)) for i in range(9)]
    verdict = NodeVerdict("here", ("insufficient memory (has 1Gi free)",))
    refusal = Refusal("job", "no", MemberId("worker", 0), (verdict,))
    [sentence] = held_sentences(refusal, MACHINE, many)
    assert sentence.startswith("18Gi of 16Gi memory held by run run-0 (worker-0) and run run-1")
    assert sentence.endswith("and 4 more runs")
