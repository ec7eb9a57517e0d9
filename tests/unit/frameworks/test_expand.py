"""Job and role settings merge into members; everything wrong with the roles is told at once."""

from __future__ import annotations

from typing import Any

import pytest
from framework_jobs import make_job

from mooring.frameworks import expand, success_policy
from mooring.model.cluster import Toleration
from mooring.model.errors import BadInput
from mooring.model.member import Duty, Pinning, Preset, Relation, Restart
from mooring.model.resources import Resources
from mooring.model.topology_spread import TopologySpread
from mooring.spec.load import parse_job

CHIEF_PS_WORKER: dict[str, dict[str, Any]] = {
    "chief": {},
    "ps": {"replicas": 2},
    "worker": {"replicas": 2},
}


def problems_of(*args: Any, **kwargs: Any) -> dict[str, str]:
    with pytest.raises(BadInput) as raised:
        expand(make_job(*args, **kwargs))
    return {
        problem.path: f"{problem.found} | {problem.accepted}" for problem in raised.value.problems
    }


def test_every_copy_of_a_role_is_a_member_in_file_order() -> None:
    gang = expand(make_job("tensorflow", CHIEF_PS_WORKER))
    assert [member.name for member in gang.members] == [
        "chief-0",
        "ps-0",
        "ps-1",
        "worker-0",
        "worker-1",
    ]
    assert gang.server_roles == ("ps",)
    assert gang.all_or_nothing
    assert {member.hostname for member in gang.members} >= {"demo-ps-1", "demo-chief-0"}


@pytest.mark.parametrize(
    ("framework", "roles", "duties"),
    [
        ("tensorflow", {"chief": {}, "ps": {}, "worker": {}, "evaluator": {}},
         {"chief": Duty.LEADS, "ps": Duty.SERVES, "worker": Duty.TRAINS,
          "evaluator": Duty.EVALUATES}),
        ("mpi", {"launcher": {}, "worker": {}}, {"launcher": Duty.STARTS, "worker": Duty.TRAINS}),
        ("pytorch", {"master": {}, "worker": {}}, {"master": Duty.TRAINS, "worker": Duty.TRAINS}),
        # Names mean nothing by themselves.
        ("indexed", {"ps": {}, "chief": {}}, {"ps": Duty.TRAINS, "chief": Duty.TRAINS}),
    ],
)  # fmt: skip
def test_a_framework_knows_what_its_roles_are_there_for(
    framework: str, roles: dict[str, Any], duties: dict[str, Duty]
) -> None:
    gang = expand(make_job(framework, roles))
    assert {role: gang.duty_of(role) for role in gang.roles} == duties


def test_a_chief_of_a_ring_trains_like_the_others() -> None:
    job = make_job("tensorflow", {"chief": {}, "worker": {}}, strategy="all-reduce")
    assert expand(job).duty_of("chief") is Duty.TRAINS


def test_role_settings_go_over_those_of_the_job() -> None:
    job = make_job(
        "indexed",
        {
            "worker": {
                "command": ["./mine", "--fast"],
                "env": {"B": "role", "C": "role"},
                "resources": {"cpu": 2, "memory": "1Gi"},
                "ports": {"main": 9000, "metrics": 0},
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "restart": "member",
                "processes": 3,
            },
            "other": {},
        },
        env={"A": "job", "B": "job"},
        placement={
            "nodeSelector": {"disk": "hdd", "zone": "a"},
            "tolerations": [{"key": "team", "value": "x"}],
            "rules": [{"relation": "apart", "roles": ["worker"]}],
        },
        failurePolicy={"restart": "gang"},
        gang=False,
    )
    gang = expand(job)
    worker, other = gang.members
    assert worker.argv == ("./mine", "--fast")
    assert worker.env == {"A": "job", "B": "role", "C": "role"}
    assert worker.resources == Resources(2000, 2**30)
    assert worker.ports == {"main": 9000, "metrics": 0}
    assert worker.node_selector == {"disk": "ssd", "zone": "a"}
    assert worker.tolerations == (
        Toleration("team", "Equal", "x"),
        Toleration("gpu", "Exists"),
    )
    assert (worker.restart, worker.processes, worker.pinning) == (
        Restart.MEMBER,
        3,
        Pinning.SHARED,
    )
    assert other.argv == ("python", "train.py")
    assert other.env == {"A": "job", "B": "job"}
    assert other.ports == {"main": 0}
    assert other.restart is Restart.GANG
    assert gang.rules[0].relation is Relation.APART
    assert not gang.all_or_nothing


def test_a_role_names_the_gpus_that_it_wants() -> None:
    roles = {
        "worker": {"resources": {"gpu": 0.5}, "gpuKind": "a100", "gpuMemory": "40Gi"},
        "other": {"resources": {"gpu": 2}},
    }
    gang = expand(make_job("indexed", roles))
    worker, other = gang.members
    assert worker.resources == Resources(gpu_share_millis=500)
    assert (worker.wish.gpu_kind, worker.wish.gpu_memory_bytes) == ("a100", 40 << 30)
    assert other.resources == Resources(gpus=2)
    assert (other.wish.gpu_kind, other.wish.gpu_memory_bytes) == ("", 0)
    assert gang.preset is Preset.PACK


@pytest.mark.parametrize(
    ("resources", "placement", "expected"),
    [
        ({}, {}, Preset.SPREAD),
        ({"gpu": 1}, {}, Preset.PACK),
        ({"gpu": 1}, {"preset": "spread"}, Preset.SPREAD),
        ({}, {"preset": "isolate"}, Preset.ISOLATE),
    ],
)
def test_the_default_preset_packs_only_with_gpus(
    resources: dict[str, Any], placement: dict[str, Any], expected: Preset
) -> None:
    job = make_job("indexed", {"worker": {"resources": resources}}, placement=placement)
    assert expand(job).preset is expected


@pytest.mark.parametrize(
    ("framework", "roles", "spec", "path", "words"),
    [
        ("tensorflw", {"worker": {}}, {}, "spec.framework", "tensorflow"),
        ("pytorch", {"worker": {}}, {"strategy": "indexed"}, "spec.strategy", "all-reduce"),
        ("pytorch", {"worker": {}, "ps": {}}, {}, "spec.roles.ps", "master, worker"),
        (
            "tensorflow",
            {"ps": {}, "worker": {}, "cheif": {}},
            {},
            "spec.roles.cheif",
            "did you mean 'chief'",
        ),
        ("tensorflow", {"worker": {}}, {}, "spec.roles.ps", "or strategy all-reduce"),
        ("tensorflow", {"chief": {}, "ps": {}}, {}, "spec.roles.worker", "no role 'worker'"),
        (
            "tensorflow",
            {"ps": {}, "worker": {}},
            {"strategy": "all-reduce"},
            "spec.roles.ps",
            "chief, worker, evaluator",
        ),
        (
            "tensorflow",
            {**CHIEF_PS_WORKER, "chief": {"replicas": 2}},
            {},
            "spec.roles.chief.replicas",
            "at most 1",
        ),
        (
            "tensorflow",
            {**CHIEF_PS_WORKER, "ps": {"processes": 2}},
            {},
            "spec.roles.ps.processes",
            "use replicas",
        ),
        ("indexed", {"worker": {}}, {"command": None}, "spec.roles.worker.command", "no command"),
        ("mpi", {"launcher": {}}, {}, "spec.roles.worker", "no role 'worker'"),
        ("mpi", {"worker": {}}, {}, "spec.roles.launcher", "no role 'launcher'"),
        (
            "mpi",
            {"launcher": {}, "worker": {"command": ["sleep"]}},
            {},
            "spec.roles.worker.command",
            "mpirun",
        ),
        (
            "pytorch",
            {"worker": {"env": {"RANK": "0"}}},
            {},
            "spec.roles.worker.env.RANK",
            "identity",
        ),
        ("indexed", {"worker": {}}, {"env": {"VC_X_NUM": "0"}}, "spec.env.VC_X_NUM", "identity"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(
    framework: str, roles: dict[str, Any], spec: dict[str, Any], path: str, words: str
) -> None:
    found = problems_of(framework, roles, **spec)
    assert list(found) == [path]
    assert words in found[path]


def test_all_problems_come_together_and_carry_the_source() -> None:
    job = make_job(
        "tensorflow",
        {"chief": {"replicas": 3}, "wroker": {}},
        env={"TF_CONFIG": "{}"},
        command=None,
    )
    with pytest.raises(BadInput) as raised:
        expand(job, "my.yaml")
    assert [problem.path for problem in raised.value.problems] == [
        "spec.roles.chief.replicas",
        "spec.roles.chief.command",
        "spec.roles.wroker",
        "spec.roles.worker",
        "spec.roles.ps",
        "spec.env.TF_CONFIG",
    ]
    assert str(raised.value).startswith("my.yaml: spec.roles.chief.replicas: ")


def test_mpi_workers_take_no_command_from_the_job() -> None:
    gang = expand(make_job("mpi", {"launcher": {"command": ["mpirun", "x"]}, "worker": {}}))
    launcher, worker = gang.members
    assert launcher.argv == ("mpirun", "x")
    assert launcher.ports == {}
    assert worker.argv == ()
    assert worker.ports == {"agent": 0}


@pytest.mark.parametrize(
    ("framework", "roles", "spec", "expected"),
    [
        ("tensorflow", CHIEF_PS_WORKER, {}, ("chief",)),
        ("tensorflow", {"ps": {}, "worker": {}, "evaluator": {}}, {}, ("worker",)),
        (
            "tensorflow",
            {"worker": {}, "chief": {}},
            {"strategy": "all-reduce"},
            ("worker", "chief"),
        ),
        ("pytorch", {"master": {}, "worker": {}}, {}, ("master", "worker")),
        ("mpi", {"launcher": {}, "worker": {}}, {}, ("launcher",)),
        ("indexed", {"map": {}, "reduce": {}}, {}, ("map", "reduce")),
        ("indexed", {"map": {}, "log": {}}, {"successPolicy": {"roles": ["map"]}}, ("map",)),
    ],
)
def test_whose_end_ends_the_job(
    framework: str, roles: dict[str, Any], spec: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert success_policy(make_job(framework, roles, **spec)).roles == expected


def test_members_carry_image_labels_and_pipeline() -> None:
    text = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {name: j, labels: {team: a}}
spec:
  framework: indexed
  command: [a]
  image: train:1
  pipeline: nightly
  kubernetes: {labels: {tier: x}}
  roles:
    worker: {}
    other: {kubernetes: {image: "other:1", labels: {tier: y}}}
"""
    worker, other = expand(parse_job(text, "job")).members
    assert (worker.image, other.image) == ("train:1", "other:1")
    assert worker.labels == (("mooring.dev/pipeline", "nightly"), ("team", "a"), ("tier", "x"))
    assert dict(other.labels)["tier"] == "y"


ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
FAST = {"key": "disk", "operator": "NotIn", "values": ["hdd"]}
CORES = {"key": "cores", "operator": "Gt", "values": ["8"]}


def affinity(*terms: dict[str, Any], liked: tuple[tuple[int, dict[str, Any]], ...] = ()) -> Any:
    found: dict[str, Any] = {}
    if terms:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{"matchExpressions": [term]} for term in terms]
        }
    if liked:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": weight, "preference": {"matchExpressions": [term]}} for weight, term in liked
        ]
    return found


def test_node_affinity_of_job_and_role_must_both_hold() -> None:
    gang = expand(
        make_job(
            "indexed",
            {
                "worker": {"nodeAffinity": affinity(FAST, CORES, liked=((5, ZONE),))},
                "other": {"nodeName": "n7"},
            },
            placement={
                "nodeAffinity": affinity(ZONE, liked=((1, FAST),)),
                "nodeName": "n1",
            },
        )
    )
    worker, other = (member.wish for member in gang.members)
    # (zone) and (disk or cores) = (zone and disk) or (zone and cores)
    assert [str(term) for term in worker.required] == [
        "zone In a,b and disk NotIn hdd",
        "zone In a,b and cores Gt 8",
    ]
    assert [(str(term), term.weight) for term in worker.preferred] == [
        ("disk NotIn hdd", 1),
        ("zone In a,b", 5),
    ]
    assert (worker.node, other.node) == ("n1", "n7")
    assert [str(term) for term in other.required] == ["zone In a,b"]


@pytest.mark.parametrize(
    ("framework", "roles", "traffic", "expected"),
    [
        # the pattern follows the strategy unless it is named
        ("tensorflow", CHIEF_PS_WORKER, {"bytesPerStep": 8}, ("parameter-server", 8, ())),
        ("tensorflow", CHIEF_PS_WORKER, {"perServer": [6, 2]}, ("parameter-server", 8, (6, 2))),
        ("pytorch", {"worker": {"replicas": 2}}, {"bytesPerStep": "1Ki"}, ("ring", 1024, ())),
        (
            "indexed",
            {"worker": {"replicas": 2}},
            {"pattern": "ring", "bytesPerStep": 1},
            ("ring", 1, ()),
        ),
    ],
)
def test_declared_traffic(
    framework: str, roles: dict[str, dict[str, Any]], traffic: Any, expected: Any
) -> None:
    found = expand(make_job(framework, roles, traffic=traffic)).traffic
    assert found is not None
    assert (found.pattern.value, found.bytes_per_step, found.per_server) == expected


@pytest.mark.parametrize(
    ("framework", "roles", "spec", "path", "words"),
    [
        (
            "indexed",
            {"worker": {}},
            {"traffic": {"bytesPerStep": 1}},
            "spec.traffic.pattern",
            "indexed implies none | one of: parameter-server, ring",
        ),
        (
            "pytorch",
            {"worker": {}},
            {"traffic": {"pattern": "parameter-server", "bytesPerStep": 1}},
            "spec.traffic.pattern",
            "no role of the job serves parameters",
        ),
        (
            "tensorflow",
            CHIEF_PS_WORKER,
            {"traffic": {"perServer": [1, 2, 3]}},
            "spec.traffic.perServer",
            "3 amounts | 2, one for each member of ps",
        ),
        (
            "pytorch",
            {"worker": {}},
            {"traffic": {"perServer": [1]}},
            "spec.traffic.perServer",
            "a list, with a ring | bytesPerStep instead",
        ),
        # both servers, the chief and one worker are four
        (
            "tensorflow",
            CHIEF_PS_WORKER,
            {"minAvailable": 3},
            "spec.minAvailable",
            "3 | at least 4: all 2 of ps, one chief, one worker are always there",
        ),
        (
            "indexed",
            {"worker": {"replicas": 2}},
            {"minAvailable": 1, "gang": False},
            "spec.minAvailable",
            "1 beside 'gang: false'",
        ),
    ],
)
def test_traffic_and_elastic_gangs_that_cannot_be(
    framework: str, roles: dict[str, dict[str, Any]], spec: Any, path: str, words: str
) -> None:
    assert words in problems_of(framework, roles, **spec)[path]


def test_topology_spread_constraints_reach_the_gang() -> None:
    job = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {{name: j}}
spec:
  framework: indexed
  command: [a]
  placement:
    topologySpread: [{{topologyKey: zone, maxSkew: 2, roles: [{role}], matchLabels: {{a: b}}}},
                     {{topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}}]
  roles: {{worker: {{}}}}
"""
    assert expand(parse_job(job.format(role="worker"), "job")).spreads == (
        TopologySpread("zone", 2, True, ("worker",), (("a", "b"),)),
        TopologySpread("rack", required=False),
    )
    with pytest.raises(BadInput, match=r"topologySpread\[0\].roles\[0\] .*found unknown role"):
        parse_job(job.format(role="workr"), "job")
