"""Which devices a member gets: from one NUMA cell if possible, and one where its CPUs fit too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.model.cluster import Gpu


def choose(
    free: Sequence[Gpu], count: int, free_cpus: Mapping[int, int], whole_cpus: int
) -> tuple[Gpu, ...]:
    """`count` of the `free` devices. `free_cpus` counts the free CPUs of each cell."""
    if count > len(free):
        raise ValueError(f"{count} devices wanted, {len(free)} free")
    cells: dict[int, list[Gpu]] = {}
    for gpu in sorted(free, key=lambda gpu: gpu.index):
        cells.setdefault(gpu.cell, []).append(gpu)
    taken: list[Gpu] = []
    while len(taken) < count:
        missing = count - len(taken)
        fitting = [cell for cell, gpus in cells.items() if len(gpus) >= missing]
        if fitting:
            cell = min(
                fitting,
                key=lambda cell: (
                    free_cpus.get(cell, 0) < whole_cpus,
                    len(cells[cell]),
                    cell,
                ),
            )
        else:
            cell = max(cells, key=lambda cell: (len(cells[cell]), -cell))
        taken += cells.pop(cell)[:missing]
    return tuple(sorted(taken, key=lambda gpu: gpu.index))
