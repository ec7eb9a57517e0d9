"""Extended resources, volumes and spread constraints on random clusters: what is planned holds, and
what could be planned is."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from clusters import members, node
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.brain import ClusterState, place
from mooring.model.affinity import Operator, Requirement, Term
from mooring.model.cluster import Snapshot
from mooring.model.member import Gang, Member, MemberId, Preset
from mooring.model.plan import Plan
from mooring.model.topology_spread import HOSTNAME, TopologySpread
from mooring.model.volumes import (
    Access,
    Binding,
    Claim,
    PersistentVolume,
    Storage,
    StorageClass,
    Volume,
)

pytestmark = pytest.mark.slow

FPGA = "example.com/fpga"
DRIVER = "x.example"
SCRATCH = Volume(own=Claim("", "local"))
MADE = Volume(own=Claim("", "made"))
CLASSES = (StorageClass("local", binding=Binding.WAIT), StorageClass("made", DRIVER, Binding.WAIT))
CLAIMS = (
    Claim("once", volume="pv-once"),
    Claim("many", access=frozenset({Access.MANY_NODES}), volume="pv-many"),
    Claim("alone", access=frozenset({Access.ONE_MEMBER}), volume="pv-alone"),
)
MOUNTS = (
    (),
    (),
    (Volume("once"),),
    (Volume("many"),),
    (Volume("alone"),),
    (SCRATCH,),
    (MADE,),
    (MADE, SCRATCH),
    (Volume(disk="d"),),
    (Volume(disk="d", read_only=True),),
)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    count = draw(st.integers(1, 3))
    found = [
        replace(
            node(f"n{i}", draw(st.integers(1, 4))),
            labels={"host": f"n{i}", **draw(st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}]))},
            extended=draw(st.sampled_from([(), ((FPGA, 1),), ((FPGA, 2),)])),
            volume_limits=draw(st.sampled_from([(), ((DRIVER, 1),), ((DRIVER, 2),)])),
        )
        for i in range(count)
    ]
    hosts = draw(st.lists(st.sampled_from([each.name for each in found]), max_size=4))
    volumes = [
        PersistentVolume(
            f"local-{i}", "local", affinity=(Term((Requirement("host", Operator.IN, (host,)),)),)
        )
        for i, host in enumerate(hosts)
    ]
    volumes += [
        PersistentVolume(
            claim.volume, access=claim.access, driver=draw(st.sampled_from(["", DRIVER]))
        )
        for claim in CLAIMS
    ]
    return Snapshot(tuple(found), storage=Storage(tuple(volumes), CLAIMS, CLASSES))


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    found: list[Member] = []
    for role, most in (("ps", 2), ("worker", 3)):
        alike = members(role, draw(st.integers(0, most)), 1, volumes=draw(st.sampled_from(MOUNTS)))
        extended = draw(st.sampled_from([(), (), ((FPGA, 1),)]))
        found += [replace(m, resources=replace(m.resources, extended=extended)) for m in alike]
    found = found or list(members("worker", 1))
    spreads = draw(
        st.lists(
            st.builds(
                TopologySpread,
                st.sampled_from(["zone", HOSTNAME]),
                st.integers(1, 2),
                st.booleans(),
                st.sampled_from([(), ("worker",)]),
            ),
            max_size=2,
        )
    )
    preset = draw(st.sampled_from([Preset.SPREAD, Preset.PACK]))
    return Gang("job", tuple(found), preset, {}, spreads=tuple(spreads))


def wrong(job: Gang, snapshot: Snapshot, where: Mapping[MemberId, str]) -> Iterator[str]:
    """All that is wrong with these members on these nodes, said independently of the brain."""
    storage = snapshot.storage
    assert storage is not None
    drivers = {volume.name: volume.driver for volume in storage.volumes}
    for each in snapshot.nodes:
        here = [member for member in job.members if where[member.id] == each.name]
        if 1000 * len(here) > each.cpu_millis:
            yield "cpu"
        if sum(member.resources.count(FPGA) for member in here) > dict(each.extended).get(FPGA, 0):
            yield "extended"
        mounts = [volume for member in here for volume in member.volumes]
        named = {volume.claim for volume in mounts if volume.claim}
        attached = sum(drivers[f"pv-{name}"] == DRIVER for name in named) + mounts.count(MADE)
        if attached > dict(each.volume_limits).get(DRIVER, 99):
            yield "limit"
        local = sum(
            volume.name.startswith("local")
            and volume.affinity[0].requirements[0].values == (each.name,)
            for volume in storage.volumes
        )
        if mounts.count(SCRATCH) > local:
            yield "local"
    users = {
        name: [member for member in job.members if Volume(name) in member.volumes]
        for name in ("once", "alone")
    }
    if len({where[member.id] for member in users["once"]}) > 1:
        yield "once"
    if len(users["alone"]) > 1:
        yield "alone"
    disks = [volume for member in job.members for volume in member.volumes if volume.disk]
    if len(disks) > 1 and not all(volume.read_only for volume in disks):
        yield "disk"
    for spread in job.spreads:
        if spread.required:
            yield from _uneven(spread, job, snapshot, where)


def _uneven(
    spread: TopologySpread, job: Gang, snapshot: Snapshot, where: Mapping[MemberId, str]
) -> Iterator[str]:
    domain = {
        each.name: each.name if spread.key == HOSTNAME else each.labels.get(spread.key)
        for each in snapshot.nodes
    }
    counts = Counter(dict.fromkeys((name for name in domain.values() if name), 0))
    spread_members = [member for member in job.members if spread.applies_to(member.id.role)]
    for member in spread_members:
        mine = domain[where[member.id]]
        if mine is None:
            yield "label"
        else:
            counts[mine] += 1
    if spread_members and counts and max(counts.values()) - min(counts.values()) > spread.max_skew:
        yield "skew"


@settings(max_examples=600, deadline=None)
@given(clusters(), gangs())
def test_what_is_planned_holds_and_what_could_be_is_planned(snapshot: Snapshot, job: Gang) -> None:
    plan = place(job, snapshot)
    if isinstance(plan, Plan):
        where = {one.member: one.slot.node for one in plan.placements}
        assert not list(wrong(job, snapshot, where))
        for one in plan.placements:
            chosen = {verdict.node: verdict for verdict in one.verdicts}[one.slot.node]
            assert not chosen.refused
        state = ClusterState(snapshot)
        fresh = state.copy()
        state.assume(job, plan)
        assert ClusterState(state.snapshot()).same_as(state)
        state.release(job.job)
        assert state.same_as(fresh)
    else:
        ids = [member.id for member in job.members]
        names = [each.name for each in snapshot.nodes]
        for choice in itertools.product(names, repeat=len(ids)):
            assert list(wrong(job, snapshot, dict(zip(ids, choice, strict=True)))), choice
