"""Whatever mix of roles, copies and processes: the members agree on who they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from framework_jobs import give_addresses, make_job, render_all
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.frameworks import expand, identify
from mooring.model.identity import IdentityError
from mooring.model.launch import Address
from mooring.model.member import MemberId

role_settings = st.fixed_dictionaries(
    {"replicas": st.integers(1, 6), "processes": st.integers(1, 4)}
)
role_names = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
hosts = st.sampled_from(["127.0.0.1", None])


@given(st.dictionaries(role_names, role_settings, min_size=1, max_size=5), hosts)
@settings(max_examples=100, deadline=None)
def test_indexed_ranks_are_every_number_once_in_file_order(
    roles: dict[str, Any], host: str | None
) -> None:
    members = render_all(make_job("indexed", roles), host)
    world = sum(role["replicas"] * role["processes"] for role in roles.values())
    seen = [
        int(process.env["MOORING_RANK"])
        for _, launch in members.values()
        for process in launch.processes
    ]
    assert seen == list(range(world))
    assert {launch.env["MOORING_WORLD_SIZE"] for _, launch in members.values()} == {str(world)}


@given(role_settings, st.none() | st.integers(1, 4), hosts)
@settings(max_examples=100, deadline=None)
def test_pytorch_members_agree(
    worker: dict[str, Any], master_processes: int | None, host: str | None
) -> None:
    roles: dict[str, Any] = {"worker": worker}
    if master_processes:
        roles["master"] = {"processes": master_processes}
    members = render_all(make_job("pytorch", roles), host)
    processes = [
        {**launch.env, **process.env}
        for _, launch in members.values()
        for process in launch.processes
    ]
    for shared in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_WORLD_SIZE"):
        assert len({env[shared] for env in processes}) == 1
    assert sorted(int(env["RANK"]) for env in processes) == list(range(len(processes)))
    assert int(processes[0]["WORLD_SIZE"]) == len(processes)
    assert {env["RANK"] for env in processes} == {env["MOORING_RANK"] for env in processes}
    for name, (identity, launch) in members.items():
        assert len(launch.processes) == int(launch.env["LOCAL_WORLD_SIZE"]), name
        ranks = [int(process.env["RANK"]) for process in launch.processes]
        assert ranks == list(identity.ranks)
        assert ranks == list(range(ranks[0], ranks[0] + len(ranks)))
    rank_zero = next(env for env in processes if env["RANK"] == "0")
    peers = json.loads(rank_zero["MOORING_PEERS"])
    own = peers[rank_zero["MOORING_ROLE"]][int(rank_zero["MOORING_INDEX"])]
    assert own == f"{rank_zero['MASTER_ADDR']}:{rank_zero['MASTER_PORT']}"


@given(st.integers(0, 1), st.integers(1, 5), st.integers(1, 5), st.integers(0, 1), hosts)
@settings(max_examples=100, deadline=None)
def test_tensorflow_members_see_one_cluster_and_find_themselves_in_it(
    chiefs: int, servers: int, workers: int, evaluators: int, host: str | None
) -> None:
    counts = {"ps": servers, "worker": workers, "evaluator": evaluators, "chief": chiefs}
    roles = {role: {"replicas": count} for role, count in counts.items() if count}
    members = render_all(make_job("tensorflow", roles), host)
    configs = {name: json.loads(launch.env["TF_CONFIG"]) for name, (_, launch) in members.items()}
    clusters = [config["cluster"] for config in configs.values()]
    assert all(cluster == clusters[0] for cluster in clusters)
    addresses = [address for found in clusters[0].values() for address in found]
    assert len(addresses) == len(set(addresses)) == chiefs + servers + workers
    for name, config in configs.items():
        task = config["task"]
        assert name == f"{task['type']}-{task['index']}"
        if task["type"] != "evaluator":
            me = members[name][0].me
            assert clusters[0][task["type"]][task["index"]] == me.address()
    ranks = {name: identity.ranks for name, (identity, _) in members.items()}
    assert all(not found for name, found in ranks.items() if name.startswith(("ps", "evaluator")))
    if chiefs:
        assert ranks["chief-0"] == (0,)
    assert [ranks[f"worker-{index}"] for index in range(workers)] == [
        (chiefs + index,) for index in range(workers)
    ]


def test_two_members_on_one_port_are_refused() -> None:
    job = make_job("indexed", {"worker": {"replicas": 2}})
    gang = expand(job)
    same = {member.id: Address("127.0.0.1", {"main": 7001}) for member in gang.members}
    with pytest.raises(IdentityError, match="leads to worker-0, not to worker-1"):
        identify(job, gang, same, epoch=0)


def test_a_member_without_an_address_is_refused() -> None:
    job = make_job("indexed", {"worker": {"replicas": 2}})
    gang = expand(job)
    addresses = give_addresses(gang)
    del addresses[MemberId("worker", 1)]
    with pytest.raises(IdentityError, match="no address for worker-1"):
        identify(job, gang, addresses, epoch=0)


def test_the_body_has_the_last_word_on_whose_port_it_is() -> None:
    job = make_job("indexed", {"worker": {"replicas": 2}})
    gang = expand(job)
    with pytest.raises(IdentityError, match="leads to None"):
        identify(job, gang, give_addresses(gang), 0, resolve=lambda host, port: None)
