"""When the checks of tables speak, with the arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import check_run, member, run, use

from mooring.doctor.registry import Unknown
from mooring.variables import Maker, PartFacts

MIB = 1 << 20
TABLE = PartFacts("table", (1_000_000, 16), 61 * MIB, server=0, looked_up=True)
SMALL = replace(TABLE, variable="small", size_bytes=3 * MIB)
KERNEL = PartFacts("kernel", (64, 64), 16_384, server=1)
SERVERS = (
    # 10 s at 2 steps/s = 20 steps; 1,220 MiB / 20 = 61 MiB a step in all.
    member("ps-0", use(sent_bytes=1219 * MIB)),
    member("ps-1", use(sent_bytes=1 * MIB)),
)


def test_whole_tables_are_told_with_their_share() -> None:
    parts = (replace(TABLE, whole=True, keras_layer=True), KERNEL)
    [found] = check_run("ps-whole-table", run(*SERVERS, variables=parts))
    assert "table whole: 61.0 MiB, 100 %" in found.says
    # 0.5 + 0.48 × 61 / 61
    assert found.weight == pytest.approx(0.98)
    assert [str(one) for one in found.remedy.changes] == ["spec.variables.lookups: rows"]


def test_code_that_is_not_of_keras_gets_code() -> None:
    keras = replace(TABLE, whole=True, keras_layer=True)
    own = replace(TABLE, variable="own", whole=True)
    [found] = check_run("ps-whole-table", run(*SERVERS, variables=(keras, own)))
    assert not found.remedy.changes
    assert "embedding_lookup" in found.remedy.code


@pytest.mark.parametrize(
    "parts",
    [
        (TABLE, KERNEL),
        # Below 4 MiB.
        (replace(SMALL, whole=True, written_whole=True),),
    ],
)
@pytest.mark.parametrize("check", ["ps-whole-table", "ps-dense-update"])
def test_rows_and_small_tables_are_silent(check: str, parts: tuple[PartFacts, ...]) -> None:
    assert check_run(check, run(*SERVERS, variables=parts)) == []


@pytest.mark.parametrize("check", ["ps-whole-table", "ps-dense-update"])
@pytest.mark.parametrize(("parts", "missing"), [((), "variables"), ((KERNEL,), "lookups")])
def test_programs_that_tell_nothing(check: str, parts: tuple[PartFacts, ...], missing: str) -> None:
    with pytest.raises(Unknown, match=missing):
        check_run(check, run(*SERVERS, variables=parts))


@pytest.mark.parametrize(
    ("steps_per_s", "weight"),
    [
        # 6 × 61 MiB = 384 MB through 4 GB/s: 0.096 s; of a step of 0.5 s 19.2 %: 0.45 + 0.096.
        (2.0, 0.546),
        # More than a whole step: at most 0.9.
        (20.0, 0.9),
        # Of 2.5 s less than a twentieth.
        (0.4, None),
    ],
)
def test_a_dense_update_is_told_where_it_takes_time(
    steps_per_s: float, weight: float | None
) -> None:
    parts = (replace(TABLE, written_whole=True, keras_adam=True),)
    found = check_run("ps-dense-update", run(*SERVERS, variables=parts, steps_per_s=steps_per_s))
    if weight is None:
        assert found == []
        return
    assert found[0].weight == pytest.approx(weight, abs=0.001)
    assert [str(one) for one in found[0].remedy.changes] == ["spec.variables.optimizer: lazy"]


@pytest.mark.parametrize("maker", [None, *Maker])
def test_another_optimizer_than_keras_adam_gets_code(maker: Maker | None) -> None:
    parts = (replace(TABLE, written_whole=True, maker=maker),)
    [found] = check_run("ps-dense-update", run(*SERVERS, variables=parts))
    assert not found.remedy.changes
    assert "LazyAdam" in found.remedy.code
    assert ("Model.fit cannot use it" in found.remedy.where) is (maker is Maker.KERAS_2)


def test_parts_of_a_divided_table_count_together() -> None:
    halves = tuple(
        replace(TABLE, size_bytes=3 * MIB, server=part, part=part, whole=True) for part in (0, 1)
    )
    # Two parts of 3 MiB are a table of 6.
    [found] = check_run("ps-whole-table", run(*SERVERS, variables=halves))
    assert "6.0 MiB" in found.says


def test_a_hot_server_names_what_it_holds() -> None:
    [found] = check_run("ps-hot", run(*SERVERS, variables=(TABLE, KERNEL)))
    assert found.says.endswith("servers: table")
    assert ("table on ps-0", 61.0) in [(one.what, one.value) for one in found.evidence]


def test_workers_are_not_compared_before_the_first_steps() -> None:
    slow = (member("worker-0", use(sent_bytes=9 * MIB)), member("worker-1", use(sent_bytes=MIB)))
    with pytest.raises(Unknown, match="steps"):
        check_run("straggler", run(*SERVERS, *slow, steps_per_s=None))
    assert check_run("straggler", run(*SERVERS, *slow))
