"""Which devices are chosen on a node; the arithmetic of each case is beside it."""

from __future__ import annotations

import itertools

import pytest
from clusters import cpu_list, gang, members, node
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import ClusterState, gpus
from mooring.brain.profile import FULL
from mooring.brain.topology import Topology
from mooring.model.cluster import Gpu, NodeUse, Snapshot
from mooring.model.member import Pinning
from mooring.model.plan import Plan
from mooring.model.resources import Resources


def devices(cells: str, switches: str = "", groups: str = "") -> tuple[Gpu, ...]:
    """One device a digit: its cell, its switch, its link group."""
    return tuple(
        Gpu(
            index,
            int(cell),
            switch=int(switches[index]) if switches else 0,
            link_group=int(groups[index]) if groups else 0,
        )
        for index, cell in enumerate(cells)
    )


# Two sockets with a switch a pair; each socket's four have links of their own.
TWO_QUADS = devices("00001111", "00112233", "00001111")
# The same, but every device has links to all others.
ALL_LINKED = devices("00001111", "00112233")
# Bridges: pairs with links, two pairs a socket.
BRIDGED = devices("00001111", "00001111", "00112233")
# No links at all; cell 0 has switches of 2 and 1, cell 1 one of 2.
PCIE = devices("00011", "00122")
FLAT = devices("0011")

PLENTY = {0: 32, 1: 32}


@pytest.mark.parametrize(
    ("machine", "held", "count", "free_cpus", "expected"),
    [
        # -- whole node: the first of equals, on one switch
        pytest.param(TWO_QUADS, "", 1, PLENTY, "0", id="one"),
        pytest.param(TWO_QUADS, "", 2, PLENTY, "01", id="a pair on one switch"),
        # 3 of 4: a switch and one more; both quads leave 1 behind
        pytest.param(TWO_QUADS, "", 3, PLENTY, "012", id="three of a quad"),
        pytest.param(TWO_QUADS, "", 4, PLENTY, "0123", id="a quad"),
        # 5 needs both groups: one whole, one more
        pytest.param(TWO_QUADS, "", 5, PLENTY, "01234", id="a quad and one"),
        pytest.param(TWO_QUADS, "", 8, PLENTY, "01234567", id="all"),
        # -- partly used: quad 0 has 1,2,3 free, quad 1 all four
        # 1: quad 0 keeps 2, quad 1 would keep 3; device 1 is alone on its switch
        pytest.param(TWO_QUADS, "0", 1, PLENTY, "1", id="a loose one first"),
        pytest.param(TWO_QUADS, "0", 2, PLENTY, "23", id="a pair beside a loose one"),
        pytest.param(TWO_QUADS, "0", 3, PLENTY, "123", id="an exact fit"),
        pytest.param(TWO_QUADS, "0", 4, PLENTY, "4567", id="the quad that is whole"),
        # 5: the whole quad, then the loose one of the other
        pytest.param(TWO_QUADS, "0", 5, PLENTY, "14567", id="the rest by best fit"),
        # one each left of quad 0, two of quad 1 on two switches: links before switches
        pytest.param(TWO_QUADS, "01256", 2, PLENTY, "47", id="one group on two switches"),
        # quad 0 has 0 and 2 on two switches, quad 1 has 4,5,6 with a pair: fewer switches win
        pytest.param(TWO_QUADS, "137", 2, PLENTY, "45", id="fewer switches before best fit"),
        # -- all linked: the cell decides, then the switch
        pytest.param(ALL_LINKED, "", 4, PLENTY, "0123", id="one cell of a linked node"),
        pytest.param(ALL_LINKED, "01", 2, PLENTY, "23", id="the fuller cell"),
        # cell 0 has two left, cell 1 four: 3 fit in cell 1
        pytest.param(ALL_LINKED, "01", 3, PLENTY, "456", id="the cell that fits"),
        # 5 = cell 1 whole and one of cell 0
        pytest.param(ALL_LINKED, "01", 5, PLENTY, "24567", id="two cells if it must be"),
        # -- bridged pairs: 4 = two pairs, of one cell
        pytest.param(BRIDGED, "", 2, PLENTY, "01", id="a bridge"),
        pytest.param(BRIDGED, "", 4, PLENTY, "0123", id="two bridges of one cell"),
        # pair 0 is used: two whole pairs in one cell are only in cell 1
        pytest.param(BRIDGED, "01", 4, PLENTY, "4567", id="two bridges, one cell, whole"),
        # 0 and 4 are held: 1 and 5 are loose, 2-3 and 6-7 whole
        pytest.param(BRIDGED, "04", 1, PLENTY, "1", id="a loose one, not a bridge"),
        # 3 = a bridge and a loose one of the same cell
        pytest.param(BRIDGED, "04", 3, PLENTY, "123", id="a bridge and the loose one beside"),
        # -- switches only
        pytest.param(PCIE, "", 1, PLENTY, "2", id="alone on its switch"),
        pytest.param(PCIE, "", 2, PLENTY, "34", id="a switch, of the smaller cell"),
        pytest.param(PCIE, "", 3, PLENTY, "012", id="a cell"),
        pytest.param(PCIE, "01", 2, PLENTY, "34", id="one switch before a loose one"),
        # 2,3,4 left, 3 wanted: all
        pytest.param(PCIE, "01", 3, PLENTY, "234", id="what is left"),
        # -- CPUs: 4 are wanted
        pytest.param(FLAT, "", 2, {0: 2, 1: 8}, "23", id="where the CPUs fit"),
        pytest.param(FLAT, "23", 2, {0: 2, 1: 8}, "01", id="no choice"),
        pytest.param(devices("0001"), "", 1, PLENTY, "3", id="best fit of a cell"),
        # Links come before CPUs: quad 1 has only two free
        pytest.param(TWO_QUADS, "67", 4, {0: 0, 1: 32}, "0123", id="links before CPUs"),
        pytest.param(TWO_QUADS, "", 4, {0: 0, 1: 32}, "4567", id="equal links, more CPUs"),
    ],
)
def test_chosen_devices(
    machine: tuple[Gpu, ...], held: str, count: int, free_cpus: dict[int, int], expected: str
) -> None:
    free = [gpu for gpu in machine if str(gpu.index) not in held]
    chosen = gpus.choose(free, count, free_cpus, 4)
    assert "".join(str(gpu.index) for gpu in chosen) == expected
    assert gpus.choose(free[::-1], count, free_cpus, 4) == chosen


def test_more_devices_than_free_is_a_defect_of_the_caller() -> None:
    with pytest.raises(ValueError, match="3 devices wanted, 2 free"):
        gpus.choose(FLAT[:2], 3, {}, 0)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_set_has_fewer_link_groups_or_cells(data: st.DataObject) -> None:
    machine = [
        Gpu(
            index,
            data.draw(st.integers(0, 2)),
            switch=data.draw(st.integers(0, 1)),
            link_group=data.draw(st.integers(0, 2)),
        )
        for index in range(data.draw(st.integers(1, 7)))
    ]
    count = data.draw(st.integers(1, len(machine)))
    chosen = gpus.choose(machine, count, {}, 0)
    assert len(set(chosen)) == count

    def spread(some: tuple[Gpu, ...]) -> tuple[int, int]:
        return len({gpu.link_group for gpu in some}), len({gpu.cell for gpu in some})

    assert spread(chosen) == min(map(spread, itertools.combinations(machine, count)))


def test_the_score_is_that_of_the_devices_that_are_given() -> None:
    # n0 has two devices left in different quads, n1 two in one quad: -20 for one group more,
    # and a fifth for one switch more
    cluster = (
        node("n0", cpus=16, cells=2, gpus=TWO_QUADS),
        node("n1", cpus=16, cells=2, gpus=TWO_QUADS),
        node("n2", cpus=16, cells=2, gpus=TWO_QUADS),
    )
    use = {
        "n0": NodeUse(Resources(gpus=6), gpus=frozenset({1, 2, 3, 5, 6, 7})),
        "n1": NodeUse(Resources(gpus=6), gpus=frozenset({0, 1, 3, 4, 5, 6})),
        "n2": NodeUse(Resources(gpus=6), gpus=frozenset({0, 2, 4, 5, 6, 7})),
    }
    state = ClusterState(Snapshot(cluster, use), FULL)
    asked = gang("pack", members("worker", 1, gpus=2))
    found = {each.node: dict(each.scores)["links"] for each in state.explain(asked)}
    # FULL weighs 20, the preset 40
    assert found == pytest.approx({"n0": -60.6, "n1": -60.6, "n2": -0.6})
    plan = state.place(asked)
    assert isinstance(plan, Plan)
    slot = plan.placements[0].slot
    assert (slot.node, slot.gpus) == ("n2", (1, 3))
    groups, switches = gpus.links([TWO_QUADS[index] for index in slot.gpus])
    assert found["n2"] == pytest.approx(-60 * (groups - 1) - 0.6 * (switches - 1))


def test_cpus_are_near_the_devices() -> None:
    # 4 members with 2 devices and 4 CPUs each fill two cells of 8 CPUs and 4 devices
    machine = node("n0", cpus=16, cells=2, gpus=TWO_QUADS)
    workers = members("worker", 4, cpu=4, gpus=2, pinning=Pinning.EXCLUSIVE)
    plan = ClusterState(Snapshot((machine,))).place(gang("pack", workers))
    assert isinstance(plan, Plan)
    for placement in plan.placements:
        cells = {TWO_QUADS[index].cell for index in placement.slot.gpus}
        assert set(placement.slot.cells) == cells
        assert len(cells) == 1


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_cpus_and_devices_share_a_cell_where_one_has_both(data: st.DataObject) -> None:
    machine = cpu_list(12, cells=3)
    # One link group, so that nothing comes before cells.
    cards = tuple(Gpu(i, data.draw(st.integers(0, 2)), switch=i % 2) for i in range(6))
    free_cpus = [cpu for cpu in machine if data.draw(st.booleans())]
    free_cards = [gpu for gpu in cards if data.draw(st.booleans())]
    whole = data.draw(st.integers(1, 4))
    count = data.draw(st.integers(1, 3))
    both = any(
        sum(cpu.cell == cell for cpu in free_cpus) >= whole
        and sum(gpu.cell == cell for gpu in free_cards) >= count
        for cell in range(3)
    )
    if not both:
        return
    topology = Topology(machine, cards)
    own = topology.cut(
        topology.cpu_mask(tuple(cpu.id for cpu in free_cpus)),
        topology.gpu_mask(tuple(gpu.index for gpu in free_cards)),
        whole,
        count,
    )
    assert topology.cells_of(*own) == 1
