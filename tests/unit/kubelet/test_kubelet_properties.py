"""What holds for every machine, use and pod; and that the quick ways agree with the plain ones.

The plain ways are written here once more, over sets and all combinations of hints.
"""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import machine

from mooring.brain.kubelet import Container, KubeletAdmission, KubeletRejection, admit
from mooring.brain.kubelet.layout import layout_of, to_bits, to_ids
from mooring.brain.kubelet.static_cpus import take
from mooring.brain.kubelet.topology import Affinity, Demand, decide
from mooring.model.cluster import (
    Cpu,
    CpuManager,
    KubeletPolicy,
    Node,
    TopologyManager,
    TopologyScope,
)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    sockets = draw(st.integers(1, 2))
    cells = draw(st.integers(1, 4))
    threads = draw(st.sampled_from((1, 2, 4)))
    cores = draw(st.integers(1, 4))
    count = sockets * cells
    gpu_cells = draw(st.lists(st.integers(0, count - 1), max_size=8))
    unhealthy = draw(st.sets(st.integers(0, 7), max_size=2))
    return machine(
        count * cores * threads,
        sockets,
        cells,
        threads,
        l3_per_cell=draw(st.integers(1, 3)),
        gpu_cells=gpu_cells,
        unhealthy=sorted(unhealthy),
        gpus_per_switch=draw(st.integers(1, 4)),
        gpus_per_link_group=draw(st.integers(1, 8)),
    )


@st.composite
def irregular_nodes(draw: st.DrawFn) -> Node:
    """Cells of any size in any socket."""
    homes = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=6))
    cpus: list[Cpu] = []
    for cell, (cores, threads) in enumerate(homes):
        for _ in range(cores + 1):
            core = len(cpus)
            cpus += [Cpu(len(cpus) + t, core, cell, cell, cell // 2) for t in range(threads + 1)]
    return Node("n", tuple(cpus), 1000 * len(cpus), 2**30)


def subsets(ids: list[int]) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.sampled_from(ids)) if ids else st.just(frozenset())


containers = st.lists(
    st.builds(
        Container.of,
        st.sampled_from((0, 500, 1000, 2000, 3000, 4000, 6000, 8000, 12000)),
        st.integers(0, 3),
        st.sampled_from((True, True, True, False)),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def pods(
    draw: st.DrawFn,
) -> tuple[Node, frozenset[int], frozenset[int], list[Container], KubeletPolicy]:
    node = draw(nodes())
    cpu_ids = [cpu.id for cpu in node.cpus]
    gpu_ids = [gpu.index for gpu in node.gpus]
    every = frozenset(cpu_ids)
    policy = KubeletPolicy(
        draw(st.sampled_from((CpuManager.STATIC, CpuManager.STATIC, CpuManager.NONE))),
        draw(st.sampled_from(TopologyManager)),
        draw(st.sampled_from(TopologyScope)),
        draw(st.booleans()),
        frozenset(sorted(draw(subsets(cpu_ids)))[:4]),
        draw(st.booleans()),
    )
    free = every - draw(subsets(cpu_ids)) if draw(st.booleans()) else every
    gpus = frozenset(gpu_ids) - draw(subsets(gpu_ids))
    return node, free, gpus, draw(containers), policy


@pytest.mark.slow
@settings(max_examples=800, deadline=None)
@given(pods())
def test_what_an_admission_may_hand_out(
    pod: tuple[Node, frozenset[int], frozenset[int], list[Container], KubeletPolicy],
) -> None:
    node, free, gpus, wanted, policy = pod
    result = admit(node, free, gpus, wanted, policy)
    assert result == admit(node, free, gpus, wanted, policy)
    if isinstance(result, KubeletRejection):
        assert result.sentence
        return
    guaranteed = all(container.guaranteed for container in wanted)
    held: set[int] = set()
    devices: set[int] = set()
    for container, cpus, given_gpus in zip(wanted, result.cpus, result.gpus, strict=True):
        alone = policy.cpu_manager is CpuManager.STATIC and guaranteed
        assert len(cpus) == (container.whole_cpus if alone else 0)
        assert len(given_gpus) == container.gpus
        assert not cpus & held
        assert not given_gpus & devices
        held |= cpus
        devices |= given_gpus
    assert held <= free - policy.reserved_cpus
    assert devices <= {gpu.index for gpu in node.gpus if gpu.index in gpus and gpu.healthy}
    assert result.shared == (free | policy.reserved_cpus) - held
    if held != free | policy.reserved_cpus:
        assert policy.reserved_cpus <= result.shared
    # Released again, everything is as before.
    assert (result.shared | held) - policy.reserved_cpus == free - policy.reserved_cpus
    _check_cells(node, result, policy)
    if policy.full_physical_cores_only:
        for cpus in result.cpus:
            cores = {(cpu.socket, cpu.core) for cpu in node.cpus if cpu.id in cpus}
            assert cpus == {cpu.id for cpu in node.cpus if (cpu.socket, cpu.core) in cores}


def _check_cells(node: Node, result: KubeletAdmission, policy: KubeletPolicy) -> None:
    cell_of_cpu = {cpu.id: cpu.cell for cpu in node.cpus}
    cell_of_gpu = {gpu.index: gpu.cell for gpu in node.gpus}
    used = [
        {cell_of_cpu[cpu] for cpu in cpus} | {cell_of_gpu[gpu] for gpu in gpus}
        for cpus, gpus in zip(result.cpus, result.gpus, strict=True)
    ]
    assert set(result.cells) == set().union(*used)
    if policy.topology_manager is TopologyManager.SINGLE_NUMA_NODE:
        assert all(len(cells) <= 1 for cells in used)
        if policy.scope is TopologyScope.POD:
            assert len(result.cells) <= 1


@settings(max_examples=300, deadline=None)
@given(pods())
def test_the_strictness_of_policies_is_ordered(
    pod: tuple[Node, frozenset[int], frozenset[int], list[Container], KubeletPolicy],
) -> None:
    """One container that a stricter policy admits is admitted by every laxer one."""
    node, free, gpus, wanted, policy = pod
    admitted = [
        isinstance(
            admit(
                node,
                free,
                gpus,
                wanted[:1],
                KubeletPolicy(
                    policy.cpu_manager,
                    topology,
                    policy.scope,
                    policy.full_physical_cores_only,
                    policy.reserved_cpus,
                ),
            ),
            KubeletAdmission,
        )
        for topology in (
            TopologyManager.SINGLE_NUMA_NODE,
            TopologyManager.RESTRICTED,
            TopologyManager.BEST_EFFORT,
            TopologyManager.NONE,
        )
    ]
    assert admitted == sorted(admitted)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.one_of(nodes(), irregular_nodes()), st.data())
def test_cpus_are_taken_as_the_plain_way_takes_them(node: Node, data: st.DataObject) -> None:
    free = data.draw(subsets([cpu.id for cpu in node.cpus]))
    count = data.draw(st.integers(0, len(node.cpus)))
    taken = take(layout_of(node), to_bits(free), count)
    assert (None if taken is None else set(to_ids(taken))) == _plain_take(node, set(free), count)


def _plain_take(node: Node, free: set[int], count: int) -> set[int] | None:
    if count > len(free):
        return None
    cells: dict[int, set[int]] = {}
    sockets: dict[int, set[int]] = {}
    cores: dict[tuple[int, int], set[int]] = {}
    for cpu in node.cpus:
        cells.setdefault(cpu.cell, set()).add(cpu.id)
        sockets.setdefault(cpu.socket, set()).add(cpu.id)
        cores.setdefault((cpu.socket, cpu.core), set()).add(cpu.id)
    whole_socket = len(node.cpus) // len(sockets)
    whole_core = len(node.cpus) // len(cores)
    left, taken = set(free), set[int]()

    def by_free(groups: list[set[int]]) -> list[set[int]]:
        return sorted((g for g in groups if g & left), key=lambda g: (len(g & left), min(g)))

    def nested(upper: list[set[int]], lower: list[set[int]]) -> list[set[int]]:
        return [low for up in by_free(upper) for low in by_free([g for g in lower if g & up])]

    def grab(groups: list[set[int]], sizes: set[int]) -> None:
        for group in groups:
            if group <= left and len(group) in sizes and len(taken) + len(group) <= count:
                taken.update(group)
                left.difference_update(group)

    all_cells, all_sockets = list(cells.values()), list(sockets.values())
    any_size = set(range(len(node.cpus) + 1))
    if len(sockets) >= len(cells):
        upper, lower = all_cells, all_sockets
        grab(by_free(upper), any_size)
        grab(nested(upper, lower), {whole_socket})
    else:
        upper, lower = all_sockets, all_cells
        grab(by_free(upper), {whole_socket})
        grab(nested(upper, lower), any_size)

    def ordered_cores() -> list[set[int]]:
        groups = nested(upper, lower)
        return [c for low in groups for c in by_free([c for c in cores.values() if c & low])]

    grab(ordered_cores(), {whole_core})
    singles = ordered_cores()
    for cpu in [cpu for core in singles for cpu in sorted(core & left)]:
        if len(taken) < count:
            taken.add(cpu)
    return taken


@st.composite
def demands(draw: st.DrawFn) -> tuple[list[Demand], int]:
    cells = draw(st.integers(1, 4))
    made = []
    for _ in range(draw(st.integers(1, 2))):
        total = draw(st.lists(st.integers(0, 4), min_size=cells, max_size=cells))
        free = [draw(st.integers(0, amount)) for amount in total]
        made.append(Demand(draw(st.integers(1, 8)), free, total))
    return made, cells


@pytest.mark.slow
@settings(max_examples=800, deadline=None)
@given(demands(), st.sampled_from(TopologyManager))
def test_hints_are_merged_as_the_plain_way_merges_them(
    wanted: tuple[list[Demand], int], policy: TopologyManager
) -> None:
    given_demands, cells = wanted
    assert decide(policy, given_demands, cells) == _plain_merge(policy, given_demands, cells)


Hint = tuple[frozenset[int] | None, bool]


def _plain_hints(demand: Demand, cells: int) -> list[Hint]:
    masks = [frozenset(c) for n in range(1, cells + 1) for c in combinations(range(cells), n)]
    enough = [m for m in masks if sum(demand.total[c] for c in m) >= demand.count]
    fewest = min((len(mask) for mask in enough), default=cells)
    fitting = [m for m in masks if sum(demand.free[c] for c in m) >= demand.count]
    return [(mask, len(mask) == fewest) for mask in fitting] or [(None, False)]


def _plain_merge(policy: TopologyManager, wanted: list[Demand], cells: int) -> Affinity:
    if policy is TopologyManager.NONE:
        return Affinity(None, True)
    everything = frozenset(range(cells))
    hints = [_plain_hints(demand, cells) for demand in wanted]
    if policy is TopologyManager.SINGLE_NUMA_NODE:
        hints = [[h for h in some if h[1] and h[0] and len(h[0]) == 1] for some in hints]
    needs = max(
        (min((len(mask) for mask, _ in some if mask), default=0) for some in hints), default=0
    )
    best: tuple[frozenset[int], bool] | None = None
    for combination in product(*hints):
        masks = [mask for mask, _ in combination if mask is not None]
        merged = everything.intersection(*masks)
        liked = all(like for _, like in combination) and len(set(masks)) <= 1
        if merged and (best is None or _better((merged, liked), best, needs)):
            best = (merged, liked)
    cells_chosen, liked = best or (everything, False)
    if policy is TopologyManager.SINGLE_NUMA_NODE and cells_chosen == everything:
        return Affinity(None, liked)
    if policy is not TopologyManager.BEST_EFFORT and not liked:
        return Affinity(None, False)
    return Affinity(to_bits(cells_chosen), True)


def _better(
    candidate: tuple[frozenset[int], bool], current: tuple[frozenset[int], bool], needs: int
) -> bool:
    if candidate[1] != current[1]:
        return candidate[1]
    new, old = len(candidate[0]), len(current[0])
    narrower = (new, to_bits(candidate[0])) < (old, to_bits(current[0]))
    if candidate[1] or old > needs:
        return narrower
    if old == needs:
        return new == needs and narrower
    if new > needs:
        return False
    return new > old or (new == old and narrower)
