"""When the checks of GPUs speak."""

from __future__ import annotations

import pytest
from building import check_node, check_run, member, node, run, use

from mooring.doctor.facts import GpuFacts
from mooring.doctor.registry import Unknown


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


@pytest.mark.parametrize("check", ["gpu-idle", "gpu-lost", "gpu-shared"])
def test_without_cards_there_is_no_answer(check: str) -> None:
    with pytest.raises(Unknown):
        check_run(check, run(member("worker-0")))
