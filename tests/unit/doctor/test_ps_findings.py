"""When the checks of parameter servers speak, with the arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import JOB, check_run, member, run, use

from mooring.doctor.facts import MemberFacts, NicFacts, Trait
from mooring.doctor.finding import Confidence
from mooring.doctor.registry import Unknown
from mooring.variables import Maker, PartFacts

MB = 10**6


def servers(*megabytes: float, node: str = "node-{}") -> list[MemberFacts]:
    """One server each, with what it moved in 10 s."""
    return [
        member(f"ps-{i}", use(received_bytes=int(mb * MB)), node=node.format(i))
        for i, mb in enumerate(megabytes)
    ]


@pytest.mark.parametrize(
    ("moved", "found"),
    [
        ((100, 100), False),
        # 149 / 100
        ((149, 51), False),
        # 155 / 100
        ((155, 45), True),
        ((100, 100, 100, 100), False),
        # 250 / 100
        ((250, 50, 50, 50), True),
        # Two that serve alike and two that do not serve: idle, not hot.
        ((100, 100, 0, 0), False),
        # One that serves everything: 100 / 25.
        ((100, 0, 0, 0), True),
    ],
)
def test_a_hot_server(moved: tuple[float, ...], found: bool) -> None:
    assert bool(check_run("ps-hot", run(*servers(*moved)))) is found


def test_a_full_card_makes_a_hot_server_certain() -> None:
    # 10 s × 100 Mbit/s = 125 MB; it received 120 MB = 96 Mbit/s.
    nic = NicFacts("node-0", 100, 96.0, 5.0)
    [found] = check_run("ps-hot", run(*servers(120, 20, 20), nics=(nic,)))
    assert found.confidence is Confidence.CERTAIN
    assert found.members == ("ps-0",)
    # 120 / (160 / 3) = 2.25 times the mean: 1 - 1 / 2.25 of the 0.96 in which the card is in use
    assert found.gain is not None
    assert found.gain.high == pytest.approx(1 / (1 - 0.96 * (1 - 1 / 2.25)))
    assert found.gain.low > 1


PLACING = JOB.replace("  roles", "  variables: {placement: round-robin}\n  roles")
SDK = frozenset({Trait.SDK_STRATEGY})


@pytest.mark.parametrize(
    ("job", "program", "changed"),
    [
        (PLACING, SDK, True),
        # A run of a program that nobody looked into.
        (PLACING, frozenset(), True),
        # Layers of Keras 3 would not run on divided variables.
        (PLACING, SDK | {Trait.KERAS_3}, False),
        # It is divided already.
        (JOB, SDK, False),
        (JOB, frozenset(), False),
    ],
)
def test_a_job_that_places_variables_is_patched(
    job: str, program: frozenset[Trait], changed: bool
) -> None:
    facts = replace(run(*servers(160, 40), job=job), program=program)
    [found] = check_run("ps-hot", facts)
    changes = [str(one) for one in found.remedy.changes]
    assert changes == (["spec.variables.placement: partitioned"] if changed else [])
    assert found.remedy.code == ""


MIB = 1 << 20
TABLE = PartFacts("table", (MIB, 1), 4 * MIB, 0, maker=Maker.TENSORFLOW)
KERAS_TABLE = replace(TABLE, maker=Maker.KERAS_3, keras_layer=True)
#: Of the optimizer, which goes with its table.
MOMENT = replace(TABLE, maker=Maker.KERAS_3, trainable=False)
KERNEL = PartFacts("kernel", (1024, 512), 2 * MIB, 1, maker=Maker.KERAS_3)


@pytest.mark.parametrize(
    ("variables", "parts", "table", "least_bytes"),
    [
        ((TABLE,), True, False, 256 << 10),
        ((replace(TABLE, maker=Maker.KERAS_2),), False, False, 256 << 10),
        ((KERAS_TABLE, MOMENT), False, True, 256 << 10),
        # What stays in Keras must not be cut: parts of 2 MiB at least leave 2 MiB whole.
        ((KERAS_TABLE, KERNEL), False, True, 2 * MIB),
        ((TABLE, KERNEL), True, False, 2 * MIB),
    ],
)
@pytest.mark.parametrize("job", [JOB, PLACING])
def test_code_is_for_the_kind_of_program(
    job: str, variables: tuple[PartFacts, ...], parts: bool, table: bool, least_bytes: int
) -> None:
    """What the job says of placement means nothing to a strategy of TensorFlow itself."""
    [found] = check_run("ps-hot", run(*servers(160, 40), job=job, variables=variables))
    code = found.remedy.code
    assert not found.remedy.changes
    assert f"min_shard_bytes={least_bytes}, max_shards=2" in code
    assert ("tape.gradient(loss, parts)" in code) is parts
    assert ("table = tf.Variable" in code) is table


@pytest.mark.parametrize("moved", [(100,), (0.2, 0.1)])
def test_one_server_or_no_traffic_is_no_answer(moved: tuple[float, ...]) -> None:
    with pytest.raises(Unknown):
        check_run("ps-hot", run(*servers(*moved)))


def test_a_job_without_servers_is_no_answer() -> None:
    with pytest.raises(Unknown, match="no parameter servers"):
        check_run("ps-hot", run(member("worker-0")))


@pytest.mark.parametrize(
    ("moved", "idle"),
    [
        ((100, 100, 0, 0), ("ps-2", "ps-3")),
        # 1 % of all is 4 % of the mean of 25 %: little, but something.
        ((100, 99, 99, 3), ()),
        # One that serves everything is hot, not idle.
        ((100, 0, 0, 0), ()),
        ((300, 100, 50, 0), ()),
    ],
)
def test_idle_servers(moved: tuple[float, ...], idle: tuple[str, ...]) -> None:
    found = check_run("ps-idle", run(*servers(*moved)))
    assert tuple(name for one in found for name in one.members) == idle


@pytest.mark.parametrize(("mbps", "found"), [(49.0, False), (80.0, True)])
def test_a_full_card(mbps: float, found: bool) -> None:
    nics = (NicFacts("node-0", 100, mbps, 5.0), NicFacts("node-1", 100, 10.0, 10.0))
    answer = check_run("ps-nic", run(*servers(100), nics=nics))
    assert bool(answer) is found
    if answer:
        # node-1 has none yet: one server more, twice the room.
        assert str(answer[0].remedy.changes[0]) == "spec.roles.ps.replicas: 2"
        assert answer[0].gain is not None
        # Half of the 0.8 in which the card is in use
        assert answer[0].gain.high == pytest.approx(1 / 0.6)


@pytest.mark.parametrize(
    ("first", "other", "found"),
    [
        (75.0, 30.0, True),
        # Not full, or no room elsewhere: 55 > 0.7 × 75.
        (45.0, 10.0, False),
        (75.0, 55.0, False),
    ],
)
def test_servers_behind_one_card(first: float, other: float, found: bool) -> None:
    nics = (NicFacts("node-0", 100, first, 5.0), NicFacts("node-1", 100, other, 5.0))
    answer = check_run("ps-one-nic", run(*servers(100, 100, node="node-0"), nics=nics))
    assert bool(answer) is found
    if answer:
        assert str(answer[0].remedy.changes[0]) == "spec.placement.preset: spread-ps"


def own_cpu(name: str, cpu_s: float) -> MemberFacts:
    cpus = frozenset({0})
    used = use(cpu_s=cpu_s, wait_s=0.0)
    return member(name, used, exclusive=True, held_cpus=cpus, allowed_cpus=cpus)


@pytest.mark.parametrize(
    ("server", "worker", "found"),
    # CPU seconds of 10
    [(9.0, 5.0, True), (8.9, 5.0, False), (9.5, 7.1, False)],
)
def test_a_server_without_cpu(server: float, worker: float, found: bool) -> None:
    facts = run(own_cpu("ps-0", server), own_cpu("worker-0", worker))
    assert bool(check_run("ps-cpu", facts)) is found


@pytest.mark.parametrize(
    ("load", "workers", "says"),
    # 2 workers at 0.75: 2 / 0.75 = 2.67 -> 2; 8 at 0.8: 10
    [(0.74, 2, ""), (0.75, 2, "2 fill it up"), (0.8, 8, "10 fill it up")],
)
def test_how_many_workers_the_servers_carry(load: float, workers: int, says: str) -> None:
    crew = [member(f"worker-{i}") for i in range(workers)]
    nic = NicFacts("node-0", 100, 100 * load, 5.0)
    found = check_run("ps-scaling", run(*servers(100), *crew, nics=(nic,)))
    assert bool(found) is bool(says)
    assert not found or says in found[0].says


def worker(index: int, rate: float | None, cpu_s: float = 5.0, wait_s: float = 0.0) -> MemberFacts:
    return member(f"worker-{index}", use(cpu_s=cpu_s, wait_s=wait_s), examples_per_s=rate)


def on_node_1(one: MemberFacts) -> MemberFacts:
    return replace(one, node="node-1")


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        ([worker(0, 100), worker(1, 100), worker(2, 95)], ""),
        # 66 of 100
        ([worker(0, 100), worker(1, 100), worker(2, 66)], ""),
        ([worker(0, 100), worker(1, 100), worker(2, 50, 2.4)], "data or the network"),
        # On CPUs that all share somebody is served last; on a node of its own it is crowded.
        ([worker(0, 100), worker(1, 100), worker(2, 50, 2.5, 5.0)], ""),
        ([worker(0, 100), worker(1, 100), on_node_1(worker(2, 50, 2.5, 5.0))], "waits for a CPU"),
        ([worker(0, 100), worker(1, 100), worker(2, 50, 5.0)], "costs more CPU time"),
        # In step, and one computes four times as long as the others.
        ([worker(0, 100, 2.0), worker(1, 100, 2.0), worker(2, 100, 8.0)], "wait for worker-2"),
        ([worker(0, 100, 8.0), worker(1, 100, 8.0), worker(2, 100, 8.0)], ""),
    ],
)
def test_stragglers(workers: list[MemberFacts], says: str) -> None:
    found = check_run("straggler", run(*workers))
    assert bool(found) is bool(says)
    if found:
        assert says in found[0].says
        assert "worker-2" in found[0].members


def test_unequal_shares_of_a_full_card_are_no_straggler() -> None:
    crew = [worker(0, 100, 1.0), worker(1, 40, 0.4)]
    assert check_run("straggler", run(*crew))
    assert not check_run("straggler", run(*crew, nics=(NicFacts("node-0", 100, 90.0, 5.0),)))


def test_dividing_is_not_clear_where_a_worker_is_beside_the_hot_server() -> None:
    nic = NicFacts("node-0", 100, 96.0, 5.0)
    [found] = check_run("ps-hot", run(*servers(120, 20, 20), member("worker-0"), nics=(nic,)))
    assert found.gain is not None
    assert found.gain.low < 1
    assert "not clear: worker-0" in found.gain.basis


@pytest.mark.parametrize(
    ("card", "full"),
    [
        # 43 in and 39 out, in turns: in use most of the time
        (NicFacts("node-0", 100, 43.0, 39.0, in_turns=0.8), True),
        # the same bytes at once
        (NicFacts("node-0", 100, 43.0, 39.0, in_turns=0.44), False),
        # nobody counted in short intervals
        (NicFacts("node-0", 100, 43.0, 39.0), False),
    ],
)
def test_a_card_that_is_full_in_turns_is_full(card: NicFacts, full: bool) -> None:
    found = check_run("ps-nic", run(*servers(50, 50), nics=(card,)))
    assert bool(found) is full
    assert not full or "in turns" in found[0].says
