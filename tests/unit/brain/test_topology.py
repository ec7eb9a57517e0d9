"""Masks choose what the readable rules of `cpus` and `gpus` choose."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import cpus, gpus
from mooring.brain.topology import Topology
from mooring.model.cluster import Cpu, Gpu


@st.composite
def machines(draw: st.DrawFn) -> tuple[Cpu, ...]:
    """Uneven cells, L3 groups and cores of one to three siblings, numbered in any order."""
    found: list[Cpu] = []
    core = l3 = 0
    for cell in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 2))):
            for _ in range(draw(st.integers(1, 3))):
                for _ in range(draw(st.sampled_from([1, 2, 2, 3]))):
                    found.append(Cpu(len(found), core, l3, cell, cell // 2))
                core += 1
            l3 += 1
    ids = draw(st.permutations(range(len(found))))
    return tuple(Cpu(ids[cpu.id], cpu.core, cpu.l3, cpu.cell, cpu.socket) for cpu in found)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(machines(), st.data())
def test_masks_choose_the_same(machine: tuple[Cpu, ...], data: st.DataObject) -> None:
    cells = sorted({cpu.cell for cpu in machine})
    devices = tuple(
        Gpu(
            i,
            data.draw(st.sampled_from(cells)),
            switch=data.draw(st.integers(0, 1)),
            link_group=data.draw(st.integers(0, 2)),
        )
        for i in range(data.draw(st.integers(0, 5)))
    )
    free = [cpu for cpu in machine if data.draw(st.integers(0, 3))]
    free_devices = [gpu for gpu in devices if data.draw(st.integers(0, 3))]
    whole = data.draw(st.integers(0, len(free)))
    count = data.draw(st.integers(0, len(free_devices)))
    in_cell = Counter(cpu.cell for cpu in free)
    expected_gpus = gpus.choose(free_devices, count, in_cell, whole)
    near = frozenset(gpu.cell for gpu in expected_gpus)
    expected = cpus.choose(free, whole, cpus.core_sizes(machine), near)

    topology = Topology(machine, devices)
    cpu_mask, gpu_mask = topology.cut(
        topology.cpu_mask(tuple(cpu.id for cpu in free)),
        topology.gpu_mask(tuple(gpu.index for gpu in free_devices)),
        whole,
        count,
    )

    assert topology.gpu_ids(gpu_mask) == tuple(gpu.index for gpu in expected_gpus)
    assert topology.cpu_ids(cpu_mask) == tuple(cpu.id for cpu in expected)
    used = {cpu.cell for cpu in expected} | {gpu.cell for gpu in expected_gpus}
    assert topology.cells_of(cpu_mask, gpu_mask) == len(used)
