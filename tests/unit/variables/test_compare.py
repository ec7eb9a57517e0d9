"""Who moves what: measured bytes are given to variables, and placements are compared."""

from __future__ import annotations

import pytest

from mooring.variables import Facts, PartFacts, compare
from mooring.variables.compare import attribute

MI = 1 << 20
TABLE = PartFacts("table", (100_000, 16), 6_400_000, 0, looked_up=True)
WIDE = PartFacts("wide", (100_000, 1), 400_000, 1, looked_up=True)
KERNEL = PartFacts("kernel", (100, 10), 4_000, 1)


def moved(facts: Facts) -> dict[str, float]:
    return {part.variable: round(part.step_bytes or 0.0, 3) for part in attribute(facts)}


@pytest.mark.parametrize(
    ("parts", "server_bytes", "expected"),
    [
        # The only table of a server moves all that its server moves.
        ((TABLE,), (1_000.0, 0.0), {"table": 1_000.0}),
        # The kernel is read and its gradient sent back: 2 x 4,000; the table has the rest.
        ((WIDE, KERNEL), (0.0, 9_200.0), {"wide": 1_200.0, "kernel": 8_000.0}),
        # Two tables of one server: rows of 64 + 8 and 4 + 8 bytes, so 72 : 12 of 8,400.
        (
            (TABLE, PartFacts("wide", (100_000, 1), 400_000, 0, looked_up=True)),
            (8_400.0, 0.0),
            {"table": 7_200.0, "wide": 1_200.0},
        ),
        # Pulled whole: once its size, and what is left for its gradients.
        (
            (PartFacts("table", (1000, 16), 64_000, 0, looked_up=True, whole=True),),
            (70_000.0, 0.0),
            {"table": 70_000.0},
        ),
        # Less was measured than whole variables must move (a run of one step): nothing is negative.
        ((WIDE, KERNEL), (0.0, 5_000.0), {"wide": 0.0, "kernel": 8_000.0}),
    ],
)
def test_what_a_server_moved_belongs_to_its_variables(
    parts: tuple[PartFacts, ...], server_bytes: tuple[float, ...], expected: dict[str, float]
) -> None:
    assert moved(Facts("run", 2, parts, server_bytes, 10)) == expected


@pytest.mark.parametrize(
    ("part", "by_rows"),
    [
        (PartFacts("told", (10, 10), 400, looked_up=True), True),
        (PartFacts("told not", (10**6, 10), 4 * 10**7, looked_up=False), False),
        (PartFacts("long", (100_000, 16), 6_400_000), True),  # 100,000 rows of 64 bytes
        (PartFacts("kernel", (1024, 1024), 4 * MI), False),  # 1,024 rows of 4,096 bytes
        (PartFacts("small", (1000, 1), 4000), False),
        (PartFacts("scalar", (), 8), False),
    ],
)
def test_a_table_is_told_from_a_kernel(part: PartFacts, by_rows: bool) -> None:
    assert part.by_rows is by_rows


def test_a_cut_that_evens_nothing_out_is_not_advised() -> None:
    # Server 0: the table alone; server 1: the kernel (2 x 4,000), and 2,000 are left for wide.
    facts = Facts("run", 2, (TABLE, WIDE, KERNEL), (18_000.0, 10_000.0), 10)
    found = compare(facts)
    assert [one.name for one in found.variables] == ["table", "kernel", "wide"]
    assert [one.share for one in found.servers] == pytest.approx([18 / 28, 10 / 28])
    assert found.now == pytest.approx(18 * 2 / 28)
    by_name = {one.placement: one for one in found.placements}
    # In turn: table and kernel on 0, wide on 1.
    assert by_name["round-robin"].server_bytes == pytest.approx((26_000.0, 2_000.0))
    # Halves of the table and of wide on each (400,000 bytes are enough to cut); the kernel on 0.
    assert by_name["partitioned"].server_bytes == pytest.approx((18_000.0, 10_000.0))
    assert found.best == "balanced"
    assert not found.worth


def test_one_hot_table_on_four_servers() -> None:
    table = PartFacts("table", (1_000_000, 16), 64_000_000, 2, looked_up=True)
    small = [PartFacts(f"bias_{n}", (10,), 40, n, looked_up=False) for n in (0, 1, 3)]
    found = compare(Facts("run", 4, (table, *small), (80.0, 80.0, 4000.0, 80.0), 7))
    # 4,000 of 4,240 bytes: 4,000 x 4 / 4,240 = 3.77; cut in four, 1,000 + 80 at most.
    assert found.now == pytest.approx(3.774, abs=1e-3)
    assert found.best == "partitioned"
    assert found.worth
    assert [(cut.variable, cut.parts) for cut in found.cuts] == [("table", 4)]
    assert found.placements[2].imbalance == pytest.approx(1080 * 4 / 4240)


def test_without_measures_sizes_stand_for_traffic() -> None:
    parts = (PartFacts("table", (1000, 256), MI), PartFacts("kernel", (64, 64), 16_384))
    found = compare(Facts("checkpoint", 2, parts, placed=False))
    assert not found.by_step
    assert found.servers == ()
    assert found.now is None
    assert found.placements[0].server_bytes == (MI, 16_384)
