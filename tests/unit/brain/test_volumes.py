"""Volumes: zones, conflicts, attach limits and binding, for members and for whole gangs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from clusters import GIB, by_node, gang, members, node
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import ClusterState, place
from mooring.frameworks import expand
from mooring.model.affinity import Operator, Requirement, Term
from mooring.model.cluster import Node, NodeUse, Snapshot
from mooring.model.member import Gang
from mooring.model.plan import Plan, Refusal
from mooring.model.volumes import (
    Access,
    Binding,
    Claim,
    PersistentVolume,
    Storage,
    StorageClass,
    Volume,
)
from mooring.spec.load import load_cluster_file, load_job

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVER = "ebs.csi.aws.com"
HOST = "host"
LOCAL = StorageClass("local", binding=Binding.WAIT)
SHARED = frozenset({Access.MANY_NODES})
ALONE = frozenset({Access.ONE_MEMBER})


def named(count: int, cpus: int = 8, **labels: str) -> tuple[Node, ...]:
    """Nodes n0, n1 and so on, each with its name as a label."""
    return tuple(node(f"n{i}", cpus, labels={HOST: f"n{i}", **labels}) for i in range(count))


def only(*hosts: str) -> tuple[Term, ...]:
    return (Term((Requirement(HOST, Operator.IN, hosts),)),)


def mounting(count: int, *volumes: Volume, job: str = "job", preset: str = "spread") -> Gang:
    return replace(gang(preset, members("worker", count, volumes=volumes)), job=job)


def refused(job: Gang, snapshot: Snapshot) -> list[tuple[str, ...]]:
    refusal = place(job, snapshot)
    assert isinstance(refusal, Refusal), by_node(refusal)
    return [verdict.reasons for verdict in refusal.verdicts]


DATA = Volume("data")


def storage(*claims: Claim, **more: object) -> Storage:
    return Storage(claims=claims, **more)  # type: ignore[arg-type]


# -- nothing known


def test_without_storage_nothing_is_looked_at() -> None:
    assert isinstance(place(mounting(2, DATA), Snapshot(named(2))), Plan)


# -- zones


@pytest.mark.parametrize(
    ("volume", "labels", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__b"}, {ZONE: "c"}, False),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        # A node that names a region but no zone is not in zone a; one that names neither may be.
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a"}, {}, True),
        ({}, {ZONE: "b"}, True),
    ],
)
def test_a_volume_is_mounted_in_its_zone(
    volume: dict[str, str], labels: dict[str, str], fits: bool
) -> None:
    known = storage(
        Claim("data", volume="pv"),
        volumes=(PersistentVolume("pv", labels=tuple(volume.items())),),
    )
    snapshot = Snapshot((node("n0", 8, labels=labels),), storage=known)
    if fits:
        assert isinstance(place(mounting(1, DATA), snapshot), Plan)
    else:
        assert refused(mounting(1, DATA), snapshot) == [("volume zone conflict (pv)",)]


# -- conflicts


def bound(access: frozenset[Access] = frozenset({Access.ONE_NODE})) -> Storage:
    return storage(
        Claim("data", access=access, volume="pv"),
        volumes=(PersistentVolume("pv", access=access, driver=DRIVER),),
    )


def test_all_who_share_a_claim_of_one_node_are_on_one() -> None:
    # Evenness would use both nodes.
    found = by_node(place(mounting(4, DATA), Snapshot(named(2), storage=bound())))
    assert [len(there) for there in found.values()] == [4]


def test_the_node_is_one_where_all_have_room() -> None:
    cluster = (*named(2, cpus=2), node("big", 4))
    assert list(by_node(place(mounting(4, DATA), Snapshot(cluster, storage=bound())))) == ["big"]


def test_roles_that_share_a_claim_are_on_one_node_too() -> None:
    both = gang("spread", members("ps", 1, volumes=(DATA,)), members("worker", 3, volumes=(DATA,)))
    assert len(by_node(place(both, Snapshot(named(3, cpus=4), storage=bound())))) == 1


def test_a_gang_that_no_node_holds_whole_is_refused() -> None:
    refusal = place(mounting(4, DATA), Snapshot(named(3, cpus=3), storage=bound()))
    assert isinstance(refusal, Refusal)
    assert "claim data is in use on another node" in refusal.sentence
    assert "3 of 4 members placed" in refusal.sentence


def test_a_claim_of_many_nodes_is_spread() -> None:
    found = by_node(place(mounting(4, DATA), Snapshot(named(2), storage=bound(SHARED))))
    assert [len(there) for there in found.values()] == [2, 2]


def test_readers_of_a_claim_of_many_readers_are_spread() -> None:
    access = frozenset({Access.ONE_NODE, Access.MANY_READERS})
    reading = replace(DATA, read_only=True)
    known = bound(access)
    assert len(by_node(place(mounting(2, reading), Snapshot(named(2), storage=known)))) == 2
    assert len(by_node(place(mounting(2, DATA), Snapshot(named(2), storage=known)))) == 1


def test_a_claim_of_one_member_has_one_user() -> None:
    refusal = place(mounting(2, DATA), Snapshot(named(2), storage=bound(ALONE)))
    assert isinstance(refusal, Refusal)
    assert "2 claim data is in use by another member; 1 of 2 members placed" in refusal.sentence


def test_who_comes_later_goes_where_the_claim_is_in_use() -> None:
    use = {"n1": NodeUse(volumes=((DATA, 1),))}
    snapshot = Snapshot(named(3), use, bound())
    assert list(by_node(place(mounting(2, DATA), snapshot))) == ["n1"]
    big = gang("spread", members("worker", 1, 9, volumes=(DATA,)))
    assert refused(big, snapshot)[0] == (
        "insufficient cpu (has 8 free)",
        "claim data is in use on another node",
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "fits"),
    [
        # Kind of disk, read-only or not: two readers share a disk unless its kind forbids it.
        (Volume(disk="pd"), Volume(disk="pd"), False),
        (Volume(disk="pd", read_only=True), Volume(disk="pd"), False),
        (Volume(disk="pd"), Volume(disk="pd", read_only=True), False),
        (Volume(disk="pd", read_only=True), Volume(disk="pd", read_only=True), True),
        (
            Volume(disk="pd", read_only=True, exclusive=True),
            Volume(disk="pd", read_only=True, exclusive=True),
            False,
        ),
        (Volume(disk="pd"), Volume(disk="other"), True),
    ],
)
def test_disks_in_use(mine: Volume, theirs: Volume, fits: bool) -> None:
    snapshot = Snapshot(named(1), {"n0": NodeUse(volumes=((theirs, 1),))}, Storage())
    if fits:
        assert isinstance(place(mounting(1, mine), snapshot), Plan)
    else:
        assert refused(mounting(1, mine), snapshot) == [("disk conflict with another user of pd",)]


def test_members_of_one_gang_conflict_as_well() -> None:
    snapshot = Snapshot(named(2), storage=Storage())
    assert isinstance(place(mounting(2, Volume(disk="pd")), snapshot), Refusal)
    assert isinstance(place(mounting(2, Volume(disk="pd", read_only=True)), snapshot), Plan)


# -- how many a driver attaches


def limited(count: int, limit: int) -> tuple[Node, ...]:
    return tuple(replace(each, volume_limits=((DRIVER, limit),)) for each in named(count))


MADE = StorageClass("made", DRIVER, Binding.WAIT)
OWN = Volume(own=Claim("", "made", GIB))


def test_each_member_with_a_volume_of_its_own_counts() -> None:
    # 2 nodes x 2 volumes: four members, although the CPUs would do for sixteen.
    known = Storage(classes=(MADE,))
    snapshot = Snapshot(limited(2, 2), storage=known)
    found = by_node(place(mounting(4, OWN, preset="pack"), snapshot))
    assert [len(there) for there in found.values()] == [2, 2]
    refusal = place(mounting(5, OWN), snapshot)
    assert isinstance(refusal, Refusal)
    assert f"2 too many volumes of {DRIVER}; 4 of 5 members placed" in refusal.sentence


def test_a_shared_volume_counts_once_on_a_node() -> None:
    found = by_node(place(mounting(6, DATA), Snapshot(limited(2, 1), storage=bound(SHARED))))
    assert [len(there) for there in found.values()] == [3, 3]


def test_volumes_of_others_count() -> None:
    use = {"n0": NodeUse(volumes=((OWN, 2),))}
    snapshot = Snapshot(limited(1, 2), use, Storage(classes=(MADE,)))
    assert refused(mounting(1, OWN), snapshot) == [
        (f"too many volumes of {DRIVER} (can attach 0 more)",)
    ]


def test_two_volumes_of_one_member_count_twice() -> None:
    snapshot = Snapshot(limited(1, 3), storage=Storage(classes=(MADE,)))
    other = replace(OWN, own=replace(OWN.own, request_bytes=2 * GIB))  # type: ignore[arg-type,type-var]
    refusal = place(mounting(2, OWN, other), snapshot)
    assert isinstance(refusal, Refusal)
    assert "1 of 2 members placed" in refusal.sentence


# -- binding


def test_a_volume_that_only_some_nodes_reach() -> None:
    known = storage(
        Claim("data", volume="pv"), volumes=(PersistentVolume("pv", affinity=only("n1")),)
    )
    assert list(by_node(place(mounting(2, DATA), Snapshot(named(3), storage=known)))) == ["n1"]
    big = gang("spread", members("worker", 1, 9, volumes=(DATA,)))
    assert "volume node affinity conflict" in refused(big, Snapshot(named(2), storage=known))[0]


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (Storage(), "claim data is not there"),
        (storage(Claim("data", volume="gone")), "volume gone is not there"),
        (storage(Claim("data", "slow")), "claim data is unbound and does not wait"),
        (
            storage(Claim("data", "slow"), classes=(StorageClass("slow", DRIVER),)),
            "claim data is unbound and does not wait",
        ),
        (storage(Claim("data", "local"), classes=(LOCAL,)), "no available volumes to bind"),
    ],
)
def test_claims_that_cannot_be_met(known: Storage, reason: str) -> None:
    assert refused(mounting(1, DATA), Snapshot(named(1), storage=known)) == [(reason,)]


@pytest.mark.parametrize(
    ("volume", "fits"),
    [
        (PersistentVolume("pv", "local", 10 * GIB), True),
        (PersistentVolume("pv", "other", 10 * GIB), False),
        (PersistentVolume("pv", "local", 9 * GIB), False),
        (PersistentVolume("pv", "local", 10 * GIB, SHARED), False),
        (PersistentVolume("pv", "local", 10 * GIB, claim="else"), False),
        (PersistentVolume("pv", "local", 10 * GIB, claim="data"), True),
        (PersistentVolume("pv", "local", 10 * GIB, affinity=only("n9")), False),
    ],
)
def test_which_volume_a_waiting_claim_can_have(volume: PersistentVolume, fits: bool) -> None:
    known = storage(Claim("data", "local", 10 * GIB), volumes=(volume,), classes=(LOCAL,))
    plan = place(mounting(1, DATA), Snapshot(named(1), storage=known))
    assert isinstance(plan, Plan) is fits


def test_a_provisioner_makes_volumes_where_it_may() -> None:
    fast = replace(MADE, topologies=only("n2"))
    known = storage(Claim("data", "made"), classes=(fast,))
    assert list(by_node(place(mounting(1, DATA), Snapshot(named(3), storage=known)))) == ["n2"]


def local_volumes(*hosts: str, size: int = GIB) -> tuple[PersistentVolume, ...]:
    return tuple(
        PersistentVolume(f"pv-{i}", "local", size, affinity=only(host))
        for i, host in enumerate(hosts)
    )


SCRATCH = Volume(own=Claim("", "local", GIB))


def test_members_take_the_volumes_of_their_nodes() -> None:
    # n0 has two, n1 one, n2 none.
    known = Storage(local_volumes("n0", "n0", "n1"), classes=(LOCAL,))
    snapshot = Snapshot(named(3), storage=known)
    found = by_node(place(mounting(3, SCRATCH), snapshot))
    assert {name: len(there) for name, there in found.items()} == {"n0": 2, "n1": 1}
    refusal = place(mounting(4, SCRATCH), snapshot)
    assert isinstance(refusal, Refusal)
    assert "3 no available volumes to bind; 3 of 4 members placed" in refusal.sentence


def test_two_claims_of_one_member_need_two_volumes() -> None:
    # 1 and 2 GiB from volumes of 1 and 3 GiB: n0 has both, n1 only a large one.
    volumes = (
        PersistentVolume("a", "local", GIB, affinity=only("n0")),
        PersistentVolume("b", "local", 3 * GIB, affinity=only("n0")),
        PersistentVolume("c", "local", 3 * GIB, affinity=only("n1")),
    )
    larger = Volume(own=Claim("", "local", 2 * GIB))
    snapshot = Snapshot(named(2)[::-1], storage=Storage(volumes, classes=(LOCAL,)))
    assert list(by_node(place(mounting(1, SCRATCH, larger), snapshot))) == ["n0"]


def test_a_volume_that_several_nodes_reach_is_given_once() -> None:
    volumes = tuple(
        PersistentVolume(f"net-{i}", "local", GIB, affinity=only("n0", "n1")) for i in range(2)
    )
    snapshot = Snapshot(named(2), storage=Storage(volumes, classes=(LOCAL,)))
    assert isinstance(place(mounting(2, SCRATCH), snapshot), Plan)
    refusal = place(mounting(3, SCRATCH), snapshot)
    assert isinstance(refusal, Refusal)
    assert "2 of 3 members placed" in refusal.sentence


def test_who_shares_a_waiting_claim_goes_where_its_volume_reaches() -> None:
    # The first takes the volume of n0 and n1; nobody can then be on n2.
    volume = PersistentVolume("pv", "local", GIB, SHARED, affinity=only("n0", "n1"))
    known = storage(Claim("data", "local", GIB, SHARED), volumes=(volume,), classes=(LOCAL,))
    found = by_node(place(mounting(6, DATA), Snapshot(named(3), storage=known)))
    assert list(found) == ["n0", "n1"]


# -- the warm cluster


def test_taking_and_giving_back_volumes() -> None:
    known = Storage(local_volumes("n0", "n1"), (Claim("data", "local", GIB),), (LOCAL,))
    state = ClusterState(Snapshot(named(2), storage=known))
    fresh = state.copy()
    one, two = mounting(1, DATA, job="one"), mounting(1, SCRATCH, job="two")
    for job in (one, two):
        plan = state.place(job)
        assert isinstance(plan, Plan)
        state.assume(job, plan)
    assert isinstance(state.place(mounting(1, SCRATCH, job="three")), Refusal)
    assert ClusterState(state.snapshot()).same_as(state)
    assert not state.same_as(fresh)
    state.release("one")
    assert isinstance(state.place(mounting(1, SCRATCH, job="three")), Plan)
    state.release("two")
    assert state.same_as(fresh)


def test_a_plan_whose_claim_went_elsewhere_is_not_taken() -> None:
    state = ClusterState(Snapshot(named(2), storage=bound()))
    one, two = mounting(1, DATA, job="one"), mounting(1, DATA, job="two")
    first, second = state.place(one), state.place(replace(two, members=one.members))
    assert isinstance(first, Plan)
    assert isinstance(second, Plan)
    elsewhere = replace(
        second,
        placements=tuple(
            replace(each, slot=replace(each.slot, node="n1")) for each in second.placements
        ),
    )
    state.assume(one, first)
    assert first.placements[0].slot.node == "n0"
    with pytest.raises(ValueError, match="no longer fits on n1"):
        state.assume(two, elsewhere)


# -- from files


def test_the_example_of_a_shared_data_set() -> None:
    folder = Path(__file__).parents[3] / "examples" / "cluster"
    snapshot = load_cluster_file(folder / "volumes.yaml").to_snapshot()
    data = expand(load_job(folder / "jobs" / "with-data.yaml"))
    assert {name: len(there) for name, there in by_node(place(data, snapshot)).items()} == {
        "node-0": 4
    }
    refusal = place(expand(load_job(folder / "jobs" / "with-scratch.yaml")), snapshot)
    assert isinstance(refusal, Refusal)
    assert "3 no available volumes to bind; 2 of 3 members placed" in refusal.sentence


# -- properties


@settings(max_examples=150, deadline=None)
@given(
    hosts=st.lists(
        st.lists(st.sampled_from(["n0", "n1", "n2", "n3"]), min_size=1, max_size=2), max_size=8
    ),
    count=st.integers(1, 6),
    limit=st.integers(0, 4),
    preset=st.sampled_from(["spread", "pack"]),
)
def test_no_node_gives_more_than_it_has(
    hosts: list[list[str]], count: int, limit: int, preset: str
) -> None:
    """Every plan can be matched to volumes, and no driver attaches more than it may."""
    volumes = tuple(
        PersistentVolume(f"pv-{i}", "local", GIB, driver="", affinity=only(*each))
        for i, each in enumerate(hosts)
    )
    counted = replace(LOCAL, provisioner="")
    cluster = tuple(replace(each, volume_limits=((DRIVER, limit),)) for each in named(4))
    snapshot = Snapshot(cluster, storage=Storage(volumes, classes=(counted, MADE)))
    plan = place(mounting(count, SCRATCH, OWN, preset=preset), snapshot)
    if isinstance(plan, Refusal):
        return
    seats = Counter(one.slot.node for one in plan.placements)
    assert max(seats.values()) <= limit
    assert _matched([set(each) for each in hosts], seats)


def _matched(reaches: list[set[str]], seats: Counter[str]) -> bool:
    """Is there a volume for each member? By augmenting paths."""
    members_at = [name for name, number in seats.items() for _ in range(number)]
    owner: dict[int, int] = {}

    def augment(member: int, tried: set[int]) -> bool:
        for volume, reach in enumerate(reaches):
            if members_at[member] in reach and volume not in tried:
                tried.add(volume)
                if volume not in owner or augment(owner[volume], tried):
                    owner[volume] = member
                    return True
        return False

    return all(augment(member, set()) for member in range(len(members_at)))


def test_shared_and_own_volumes_on_one_node() -> None:
    # One that three share and one of the other job's own: 2 in all, which is the limit.
    state = ClusterState(Snapshot(limited(1, 2), storage=replace(bound(SHARED), classes=(MADE,))))
    for job in (mounting(3, DATA, job="sharing"), mounting(1, OWN, job="own")):
        plan = state.place(job)
        assert isinstance(plan, Plan)
        state.assume(job, plan)
    assert isinstance(state.place(mounting(1, OWN, job="third")), Refusal)
    state.release("sharing")
    assert isinstance(state.place(mounting(1, OWN, job="third")), Plan)
