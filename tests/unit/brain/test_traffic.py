"""The busiest link of a plan, and plans that are chosen by it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import by_node, gang, members, node, nodes, role_counts

from mooring.brain import place
from mooring.brain.profile import DEFAULT, Profile
from mooring.brain.traffic import busiest, busiest_link
from mooring.model.cluster import Node, Snapshot
from mooring.model.member import Gang, MemberId
from mooring.model.plan import Plan
from mooring.model.traffic import Pattern, Traffic

MB = 1_000_000
WEIGHED = Profile("test", scores=(("traffic", 10.0),))


def plan_of(job: Gang, cluster: tuple[Node, ...], profile: Profile = WEIGHED) -> Plan:
    plan = place(job, Snapshot(cluster), profile)
    assert isinstance(plan, Plan), plan.sentence
    return plan


def ps_job(preset: str, servers: int, workers: int, **more: object) -> Gang:
    exchanged = Traffic(Pattern.PARAMETER_SERVER, 8 * MB)
    return gang(
        preset, members("ps", servers), members("worker", workers, **more), traffic=exchanged
    )


@pytest.mark.parametrize(
    ("preset", "servers", "workers", "node_count", "megabytes"),
    [
        # isolated: the server exchanges 8 MB with each of 4 workers
        ("isolate", 1, 4, 5, 32),
        # 2 servers on 2 nodes, 4 workers on 2: a server's node 4 x 4 MB, a workers' node 2 x 8 MB
        ("isolate", 2, 4, 4, 16),
        # 2 nodes with 1 server and 2 workers each: 2 x (2-1) + 1 x (4-2) = 4 exchanges of 4 MB
        ("colocate", 2, 4, 2, 16),
    ],
)
def test_the_busiest_link(
    preset: str, servers: int, workers: int, node_count: int, megabytes: int
) -> None:
    job = ps_job(preset, servers, workers)
    cluster = nodes(node_count, 8, nic_mbps=1000)
    link = busiest_link(job, plan_of(job, cluster), cluster)
    assert link is not None
    assert link.bytes_per_step == megabytes * MB
    assert link.seconds_per_step == pytest.approx(megabytes * 8 / 1000)


def test_a_plan_names_its_busiest_link() -> None:
    plan = plan_of(ps_job("isolate", 1, 4), nodes(5, 8, nic_mbps=1000))
    assert plan.notes == ("predicted busiest link: n0, 32.0 MB a step each way, 0.256 s",)
    unknown = plan_of(ps_job("isolate", 1, 4), nodes(5, 8))
    assert unknown.notes == ("predicted busiest link: n0, 32.0 MB a step each way",)


def test_no_link_is_busy_on_one_node() -> None:
    assert plan_of(ps_job("pack", 1, 2), nodes(2, 8)).notes == ()


def test_one_server_draws_its_workers_to_it() -> None:
    # spread: 1 server, 3 workers elsewhere = 24 MB; all on one node = nothing
    plan = plan_of(ps_job("spread", 1, 3), nodes(4, 8))
    assert len(by_node(plan)) == 1
    undeclared = replace(ps_job("spread", 1, 3), traffic=None)
    assert len(by_node(plan_of(undeclared, nodes(4, 8)))) == 4


def test_a_preset_that_nobody_asked_for_gives_way_to_a_single_node() -> None:
    """2 servers and 6 workers; on one node of 8 no NIC is needed. The first node holds 4 only."""
    job = ps_job("spread", 2, 6)
    cluster = (node("n0", 4), *nodes(4, 8)[1:])
    assert len(by_node(plan_of(job, cluster))) > 1
    assert len(by_node(plan_of(replace(job, preset_is_open=True), cluster))) == 1


def test_declared_traffic_counts_without_a_profile_that_weighs_it() -> None:
    plan = plan_of(ps_job("spread", 1, 3), nodes(4, 8), DEFAULT)
    assert len(by_node(plan)) == 1


def test_a_hot_server_makes_its_nic_the_busiest() -> None:
    # ps-0 takes 6 MB of each of 4 workers, ps-1 2 MB: 24 and 8 MB; two workers' nodes 2 x 8 MB
    exchanged = Traffic(Pattern.PARAMETER_SERVER, 8 * MB, (6 * MB, 2 * MB))
    job = replace(ps_job("isolate", 2, 4), traffic=exchanged)
    cluster = nodes(4, 8)
    plan = plan_of(job, cluster)
    link = busiest_link(job, plan, cluster)
    assert link is not None
    hot = next(p.slot.node for p in plan.placements if p.member == MemberId("ps", 0))
    assert (link.node, link.bytes_per_step) == (hot, 24 * MB)


def test_many_servers_and_workers_are_kept_apart() -> None:
    # nodes for one worker each: with a server beside it a node carries
    # 1 x (4-1) + 1 x (4-1) = 6 exchanges, on its own a worker's or server's node only 4
    cluster = tuple(node(f"n{i}", 3) for i in range(8))
    job = ps_job("spread", 4, 4, cpu=2)
    plan = plan_of(job, cluster)
    assert not role_counts(plan, "ps").keys() & role_counts(plan, "worker").keys()
    link = busiest_link(job, plan, cluster)
    assert link is not None
    assert link.bytes_per_step == 4 * 2 * MB


def test_a_preset_that_says_together_or_apart_stays() -> None:
    plan = plan_of(ps_job("isolate", 1, 3), nodes(4, 8))
    assert not role_counts(plan, "ps").keys() & role_counts(plan, "worker").keys()


def test_a_ring_loads_a_node_for_each_neighbour_elsewhere() -> None:
    job = gang("spread", members("worker", 4), traffic=Traffic(Pattern.RING, 3 * MB))
    cluster = nodes(2, 8)
    # worker-0 and -2 on n0, -1 and -3 on n1: every edge crosses, two leave each node
    link = busiest(job, ["worker"] * 4, [0, 1, 0, 1], cluster)
    assert link is not None
    assert (link.node, link.bytes_per_step) == ("n0", 6 * MB)
    # a plan puts neighbours side by side, and one edge leaves each node
    plan = plan_of(job, cluster, Profile("plain"))
    assert by_node(plan) == {"n0": ["worker-0", "worker-1"], "n1": ["worker-2", "worker-3"]}
    link = busiest_link(job, plan, cluster)
    assert link is not None
    assert (link.node, link.bytes_per_step) == ("n0", 3 * MB)
