"""When the checks of GPUs speak."""

from __future__ import annotations

import pytest
from building import JOB, check_node, check_run, member, node, run, use

from mooring.doctor.facts import CpuPlace, GpuFacts
from mooring.doctor.read_places import read_cards
from mooring.doctor.registry import Unknown
from mooring.wire.samples import Card, Sample

GIB = 1 << 30
#: Two cells of two CPUs.
CELLS = tuple(CpuPlace(cpu, cpu // 2, cpu // 2) for cpu in range(4))


@pytest.mark.parametrize(
    ("busy", "cpu_s", "says"),
    [
        # Means of two cards: 40, 39.
        ((60.0, 20.0), 5.0, ""),
        ((60.0, 18.0), 5.0, "its CPUs wait as well"),
        # 18 of 20 CPU seconds on two CPUs.
        ((5.0, 5.0), 18.0, "all that it may use is in use"),
        ((None, None), 5.0, ""),
    ],
)
def test_idle_cards_and_their_likely_cause(
    busy: tuple[float | None, ...], cpu_s: float, says: str
) -> None:
    cards = tuple(GpuFacts(index, percent) for index, percent in enumerate(busy))
    facts = run(member("worker-0", use(cpu_s=cpu_s, wait_s=0.0), gpus=cards))
    found = check_run("gpu-idle", facts)
    assert bool(found) is bool(says)
    assert not found or says in found[0].says


@pytest.mark.parametrize(
    ("processes", "on_card", "found"), [(2, 2, True), (2, 1, False), (1, 2, False)]
)
def test_ranks_that_share_a_card(processes: int, on_card: int, found: bool) -> None:
    cards = (GpuFacts(0, 90.0, processes=on_card),)
    facts = run(member("worker-0", processes=processes, gpus=cards))
    assert bool(check_run("gpu-shared", facts)) is found


@pytest.mark.parametrize(
    ("error", "found"), [("Unknown Error (999)", True), ("Driver Not Loaded (9)", False)]
)
def test_devices_that_are_lost(error: str, found: bool) -> None:
    assert bool(check_run("gpu-lost", run(member("worker-0", gpu_error=error)))) is found
    assert bool(check_node("node-gpu-lost", node(nvml_error=error))) is found


def test_an_idle_card_names_what_else_is_wrong() -> None:
    """80 threads on two CPUs, and a card that waits for them: the symptom comes second."""
    cards = (GpuFacts(0, 5.0),)
    facts = run(member("worker-0", use(wait_s=200.0), gpus=cards, threads_told=80))
    [cause] = check_run("cpu-threads", facts)
    [found] = check_run("gpu-idle", facts)
    assert found.says.endswith(f"likely {cause.says} (cpu-threads)")
    assert found.remedy.does == "see to cpu-threads first"
    assert found.weight < cause.weight


@pytest.mark.parametrize(
    ("rx", "tx", "link", "found"),
    [
        # 9.4 of 15.8 GB/s in, 1 out: 59.5 %; 9.6: 60.8 %.
        (9_400.0, 1_000.0, 15_760.0, False),
        (9_600.0, 1_000.0, 15_760.0, True),
        # The same rate over four lanes is more than they have.
        (3_000.0, 1_000.0, 3_940.0, True),
        (100.0, 2_500.0, 3_940.0, True),
    ],
)
def test_the_link_of_a_card(rx: float, tx: float, link: float, found: bool) -> None:
    card = GpuFacts(0, 50.0, rx_mbytes_per_s=rx, tx_mbytes_per_s=tx, link_mbytes_per_s=link)
    assert bool(check_run("gpu-pcie", run(member("worker-0", gpus=(card,))))) is found


@pytest.mark.parametrize(
    ("generation", "width", "mbytes_per_s"),
    # 985 MB/s a lane in the third generation, 3,938 in the fifth; an unknown one is not guessed.
    [(3, 16, 15_760.0), (5, 4, 15_752.0), (9, 16, None), (None, 16, None), (3, None, None)],
)
def test_what_lanes_carry(
    generation: int | None, width: int | None, mbytes_per_s: float | None
) -> None:
    seen = Card(50, link_gen=generation, link_width=width, cell=1)
    [card] = read_cards([Sample(1.0, gpus={"0": seen})])
    assert card.link_mbytes_per_s == mbytes_per_s
    assert card.cell == 1


def test_a_link_that_nobody_tells_of_is_no_answer() -> None:
    with pytest.raises(Unknown, match="PCIe"):
        check_run("gpu-pcie", run(member("worker-0", gpus=(GpuFacts(0, 50.0),))))


@pytest.mark.parametrize(
    ("seen", "cell", "found"),
    [
        ({0: 5, 1: 5}, 0, False),
        ({0: 5, 1: 5}, 1, True),
        # Half of the time on the card's cell.
        ({0: 5, 2: 5}, 1, False),
        # One of twenty sightings is a helper.
        ({0: 19, 2: 1}, 1, True),
        # The machine does not tell (-1 in sysfs).
        ({0: 5, 1: 5}, None, False),
    ],
)
def test_a_card_on_another_cell(seen: dict[int, int], cell: int | None, found: bool) -> None:
    cards = (GpuFacts(0, 90.0, cell=cell), GpuFacts(1, 90.0, cell=0))
    one = member("worker-0", seen_cpus=seen, allowed_cpus=frozenset(range(4)), gpus=cards)
    answer = check_run("gpu-far", run(one, topology=CELLS))
    assert bool(answer) is found
    if answer:
        assert "its GPU 0 is on cell 1" in answer[0].says
        assert [str(change) for change in answer[0].remedy.changes] == ["spec.pinning: exclusive"]
        assert "--cpunodebind=1" in answer[0].remedy.code


def test_on_one_cell_no_card_is_far() -> None:
    with pytest.raises(Unknown, match="one NUMA cell"):
        check_run("gpu-far", run(member("worker-0", gpus=(GpuFacts(0, 90.0, cell=0),))))


def full(used_gib: float, **changes: int) -> GpuFacts:
    return GpuFacts(0, 90.0, 24 * GIB, int(used_gib * GIB), **changes)


@pytest.mark.parametrize(
    ("card", "framework", "weight", "changes"),
    [
        # 21 of 24 GiB: 87.5 %.
        (full(21), "tensorflow", None, []),
        # Alone on its card: no more than an explanation.
        (full(23, processes=1), "tensorflow", 0.01, []),
        (full(23, processes=1), "pytorch", 0.01, []),
        # With a stranger: the first that comes takes it all.
        (full(23, processes=2), "tensorflow", 0.3, ["spec.env.TF_FORCE_GPU_ALLOW_GROWTH: 'true'"]),
        (full(23, processes=2), "pytorch", 0.3, []),
    ],
)
def test_memory_that_is_reserved(
    card: GpuFacts, framework: str, weight: float | None, changes: list[str]
) -> None:
    job = JOB
    if framework == "pytorch":
        job = JOB.replace("tensorflow", framework).replace(
            "    ps: {replicas: 2, resources", "    #"
        )
    found = check_run("gpu-reserved", run(member("worker-0", gpus=(card,)), job=job))
    assert [one.weight for one in found] == ([] if weight is None else [weight])
    assert [str(change) for one in found for change in one.remedy.changes] == changes


def test_two_members_on_one_card_that_is_taken() -> None:
    members = [member(f"worker-{index}", gpus=(full(23, processes=1),)) for index in (0, 1)]
    [found] = check_run("gpu-reserved", run(*members))
    assert found.members == ("worker-0", "worker-1")
    assert found.weight == 0.3
    apart = [members[0], member("worker-1", node="node-1", gpus=(full(23, processes=1),))]
    [alone] = check_run("gpu-reserved", run(*apart))
    assert alone.weight == 0.01


def test_memory_that_grows_as_it_is_needed_is_used() -> None:
    job = JOB.replace("command", "env: {TF_FORCE_GPU_ALLOW_GROWTH: 'true'}\n  command")
    assert check_run("gpu-reserved", run(member("worker-0", gpus=(full(23),)), job=job)) == []


@pytest.mark.parametrize(
    "check", ["gpu-idle", "gpu-far", "gpu-lost", "gpu-pcie", "gpu-reserved", "gpu-shared"]
)
def test_without_cards_there_is_no_answer(check: str) -> None:
    with pytest.raises(Unknown):
        check_run(check, run(member("worker-0")))
