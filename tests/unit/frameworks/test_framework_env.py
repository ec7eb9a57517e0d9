"""What each framework's processes find in their environment, written out for small gangs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from framework_jobs import make_job, render_all

from mooring.model.errors import BadInput
from mooring.model.launch import Launch


def mooring_free(env: Any) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith("MOORING_")}


def test_every_member_gets_moorings_own_variables() -> None:
    job = make_job("tensorflow", {"chief": {}, "ps": {"replicas": 2}, "worker": {}})
    members = render_all(job, epoch=3)
    env = members["worker-0"][1].env
    assert {name: value for name, value in env.items() if name.startswith("MOORING_")} == {
        "MOORING_JOB": "demo",
        "MOORING_ROLE": "worker",
        "MOORING_INDEX": "0",
        "MOORING_MEMBER": "worker-0",
        "MOORING_EPOCH": "3",
        "MOORING_WORLD_SIZE": "2",
        "MOORING_LOCAL_WORLD_SIZE": "1",
        "MOORING_PEERS": '{"chief":["127.0.0.1:7001"],'
        '"ps":["127.0.0.1:7002","127.0.0.1:7003"],"worker":["127.0.0.1:7004"]}',
    }
    per_process = {name: dict(launch.processes[0].env) for name, (_, launch) in members.items()}
    assert per_process == {
        "chief-0": {"MOORING_LOCAL_RANK": "0", "MOORING_RANK": "0"},
        "ps-0": {"MOORING_LOCAL_RANK": "0"},
        "ps-1": {"MOORING_LOCAL_RANK": "0"},
        "worker-0": {"MOORING_LOCAL_RANK": "0", "MOORING_RANK": "1"},
    }


def test_what_the_user_sets_goes_over_a_default() -> None:
    job = make_job(
        "tensorflow",
        {"ps": {}, "worker": {"env": {"TF_CPP_MIN_LOG_LEVEL": "3"}}},
        env={"MINE": "1"},
    )
    members = render_all(job)
    assert members["ps-0"][1].env["TF_CPP_MIN_LOG_LEVEL"] == "1"
    assert members["worker-0"][1].env["TF_CPP_MIN_LOG_LEVEL"] == "3"
    assert members["worker-0"][1].env["MINE"] == "1"


CLUSTER = {
    "chief": ["127.0.0.1:7001"],
    "worker": ["127.0.0.1:7004", "127.0.0.1:7005"],
    "ps": ["127.0.0.1:7002", "127.0.0.1:7003"],
}


@pytest.mark.parametrize(
    ("member", "task"),
    [
        ("chief-0", {"type": "chief", "index": 0}),
        ("ps-1", {"type": "ps", "index": 1}),
        ("worker-1", {"type": "worker", "index": 1}),
        ("evaluator-0", {"type": "evaluator", "index": 0}),
    ],
)
def test_tensorflow_parameter_server(member: str, task: dict[str, Any]) -> None:
    roles = {"chief": {}, "ps": {"replicas": 2}, "worker": {"replicas": 2}, "evaluator": {}}
    launch = render_all(make_job("tensorflow", roles))[member][1]
    assert launch.argv == ("python", "train.py")
    assert json.loads(launch.env["TF_CONFIG"]) == {"cluster": CLUSTER, "task": task}
    assert launch.env["GRPC_FAIL_FAST"] == "use_caller"


def test_tensorflow_all_reduce() -> None:
    job = make_job("tensorflow", {"worker": {"replicas": 2}}, strategy="all-reduce")
    launch = render_all(job, host=None)["worker-1"][1]
    assert json.loads(launch.env["TF_CONFIG"]) == {
        "cluster": {"worker": ["demo-worker-0:7001", "demo-worker-1:7002"]},
        "task": {"type": "worker", "index": 1},
    }
    assert "GRPC_FAIL_FAST" not in launch.env


def test_pytorch_as_torchrun_sets_it() -> None:
    roles = {"worker": {"replicas": 2, "processes": 2}, "master": {}}
    members = render_all(make_job("pytorch", roles), epoch=2)
    assert mooring_free(members["worker-1"][1].env) == {
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "7003",  # of master-0, though it comes last in the file
        "WORLD_SIZE": "5",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_NAME": "worker",
        "ROLE_WORLD_SIZE": "4",
        "TORCHELASTIC_RUN_ID": "demo",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "2",
        "PET_NPROC_PER_NODE": "2",
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": "7003",
        "PET_RDZV_ENDPOINT": "127.0.0.1:7003",
        "PET_RDZV_ID": "demo",
    }
    assert [mooring_free(process.env) for process in members["worker-1"][1].processes] == [
        {"RANK": "3", "LOCAL_RANK": "0", "ROLE_RANK": "2"},
        {"RANK": "4", "LOCAL_RANK": "1", "ROLE_RANK": "3"},
    ]
    assert [mooring_free(process.env) for process in members["master-0"][1].processes] == [
        {"RANK": "0", "LOCAL_RANK": "0", "ROLE_RANK": "0"}
    ]


def test_gloo_chooses_its_interface_itself_between_nodes() -> None:
    launch = render_all(make_job("pytorch", {"worker": {"replicas": 2}}), host=None)["worker-1"][1]
    assert "GLOO_SOCKET_IFNAME" not in launch.env
    assert launch.env["MASTER_ADDR"] == "demo-worker-0"


def mpi(
    host: str | None = "127.0.0.1", command: Sequence[str] = ("mpirun", "./sum"), **worker: Any
) -> dict[str, Launch]:
    roles = {
        "launcher": {"command": list(command)},
        "worker": {"replicas": 2, "processes": 3, **worker},
    }
    return {name: launch for name, (_, launch) in render_all(make_job("mpi", roles), host).items()}


def test_mpi_launcher_has_the_hostfile_and_the_way_to_the_workers() -> None:
    launch = mpi()["launcher-0"]
    assert launch.argv == ("mpirun", "./sum")
    # One daemon for both, so that their ranks talk through shared memory.
    assert launch.files["hostfile"] == "worker-0-ranks slots=6\n"
    assert launch.env["OMPI_MCA_orte_fork_agent"] == "moor-rank"
    assert json.loads(launch.files["rank-hosts.json"]) == {
        "worker-0-ranks": ["127.0.0.1", 7001],
        "worker-1-ranks": ["127.0.0.1", 7002],
    }
    assert launch.env["MOORING_RANK_HOSTS"] == "/run/launcher-0/rank-hosts.json"
    assert launch.env["OMPI_MCA_orte_default_hostfile"] == "/run/launcher-0/hostfile"
    assert launch.env["OMPI_MCA_plm_rsh_agent"] == "moor-rsh"
    assert launch.env["OMPI_MCA_btl_tcp_if_include"] == "lo"
    assert launch.env["MOORING_WORLD_SIZE"] == "6"
    assert "MOORING_RANK" not in launch.processes[0].env
    assert not launch.serves_ranks


def test_mpi_workers_serve_ranks_and_share_no_folder() -> None:
    launches = mpi()
    for name in ("worker-0", "worker-1"):
        launch = launches[name]
        assert (launch.argv, launch.processes, launch.serves_ranks) == ((), (), True)
        shared = {
            value
            for name_, value in launch.env.items()
            if name_.endswith(("_base", "directory", "_dir"))
        }
        assert shared == {f"/run/{name}"}


def test_mpi_between_nodes_leaves_the_interface_to_open_mpi() -> None:
    launch = mpi(host=None)["launcher-0"]
    assert not [name for name in launch.env if name.endswith("if_include")]
    assert launch.files["hostfile"] == "worker-0-ranks slots=3\nworker-1-ranks slots=3\n"
    assert "OMPI_MCA_orte_fork_agent" not in launch.env
    hosts = json.loads(launch.files["rank-hosts.json"])
    assert hosts["worker-1-ranks"] == ["demo-worker-1", 7002]
    # A name that leads to the launcher's own node would make mpirun start the ranks itself.
    assert not set(hosts) & {"demo-worker-0", "demo-worker-1", "demo-launcher-0"}


def test_mpi_the_first_worker_of_a_host_knows_where_the_others_ranks_go() -> None:
    launches = mpi()
    first = launches["worker-0"]
    assert first.env["MOORING_RANK_SLOTS"] == "/run/worker-0/rank-slots.json"
    assert json.loads(first.files["rank-slots.json"]) == [
        ["127.0.0.1", 7001, 3],
        ["127.0.0.1", 7002, 3],
    ]
    alone = [launches["worker-1"], *mpi(host=None).values()]
    assert not [launch for launch in alone if "MOORING_RANK_SLOTS" in launch.env]


@pytest.mark.parametrize(
    "command",
    [
        ["mpirun", "--bind-to", "core", "./sum"],
        ["mpirun", "-H", "worker-1-ranks:3", "./sum"],
        ["sh", "-c", "exec mpirun --map-by=node './sum'"],
        ["sh", "-c", "mpirun '-npernode' 1 ./sum"],
    ],
)
def test_mpi_commands_that_place_their_ranks_have_a_host_for_each_worker(
    command: list[str],
) -> None:
    launch = mpi(command=command)["launcher-0"]
    assert launch.files["hostfile"] == "worker-0-ranks slots=3\nworker-1-ranks slots=3\n"
    assert "OMPI_MCA_orte_fork_agent" not in launch.env


@pytest.mark.parametrize(("cpu", "yields"), [("500m", True), (3, False)])
def test_mpi_ranks_that_share_a_cpu_yield_it(cpu: Any, yields: bool) -> None:
    env = mpi(resources={"cpu": cpu})["worker-0"].env
    assert ("OMPI_MCA_mpi_yield_when_idle" in env) is yields


def test_indexed_in_the_words_of_volcano_and_kubernetes() -> None:
    roles = {"worker": {"replicas": 2}, "log-sink": {"processes": 2}}
    members = render_all(make_job("indexed", roles), host=None)
    assert mooring_free(members["worker-1"][1].env) == {
        "VC_TASK_INDEX": "1",
        "VK_TASK_INDEX": "1",
        "VC_WORKER_NUM": "2",
        "VC_WORKER_HOSTS": "demo-worker-0,demo-worker-1",
        "VC_LOG_SINK_NUM": "1",
        "VC_LOG_SINK_HOSTS": "demo-log-sink-0",
    }
    assert [
        process.env["JOB_COMPLETION_INDEX"] for process in members["log-sink-0"][1].processes
    ] == [
        "2",
        "3",
    ]


def test_indexed_counts_its_own_role_where_none_is_called_worker() -> None:
    members = render_all(make_job("indexed", {"shard": {"replicas": 3}, "extra": {}}))
    assert members["shard-2"][1].env["VC_WORKER_NUM"] == "3"
    assert members["extra-0"][1].env["VC_WORKER_NUM"] == "1"


def test_the_placement_of_variables_reaches_every_member() -> None:
    variables = {"placement": "partitioned", "maxShardBytes": "64Mi"}
    job = make_job("tensorflow", {"chief": {}, "ps": {}, "worker": {}}, variables=variables)
    for _, launch in render_all(job).values():
        document = json.loads(launch.env["MOORING_VARIABLES"])
        assert document == {"placement": "partitioned", "maxShardBytes": 64 << 20}


def test_without_servers_variables_cannot_be_placed() -> None:
    job = make_job("pytorch", {"worker": {}}, variables={"placement": "balanced"})
    with pytest.raises(BadInput, match=r"spec.variables.*no role of the job serves parameters"):
        render_all(job)


def test_only_the_chief_of_parameter_servers_is_looked_into() -> None:
    roles: dict[str, object] = {"chief": {}, "ps": {}, "worker": {}}
    asked = make_job("tensorflow", roles, variables={"lookups": "rows", "optimizer": "lazy"})
    found = {
        name: launch.env.get("MOORING_INSIDE") for name, (_, launch) in render_all(asked).items()
    }
    assert found == {
        "chief-0": '{"lookups":"rows","optimizer":"lazy"}',
        "ps-0": None,
        "worker-0": None,
    }
    plain = render_all(make_job("tensorflow", roles))
    assert plain["chief-0"][1].env["MOORING_INSIDE"] == (
        '{"lookups":"as-written","optimizer":"as-written"}'
    )


@pytest.mark.parametrize("field", ["lookups: rows", "optimizer: lazy"])
def test_what_changes_keras_needs_a_chief(field: str) -> None:
    name, value = field.split(": ")
    job = make_job("tensorflow", {"ps": {}, "worker": {}}, variables={name: value})
    with pytest.raises(BadInput, match=rf"spec.variables.{name}.*needs a role 'chief'"):
        render_all(job)
