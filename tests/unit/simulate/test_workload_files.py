"""Workload files: what they mean, and how they are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from first_come import node

from mooring.model.errors import BadInput
from mooring.model.resources import Resources
from mooring.model.traffic import Pattern, Traffic
from mooring.simulate import trace
from mooring.simulate.run import simulate
from mooring.simulate.schedule import QueueScheduler
from mooring.simulate.trace import load_workload, parse_csv, parse_workload

HEAD = "apiVersion: mooring.dev/v1\nkind: Workload\n"
EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster" / "workload.yaml"


def test_the_example_is_valid() -> None:
    workload = load_workload(EXAMPLE)
    assert [pool.name for pool in workload.pools] == ["vision", "ads"]
    assert [job.arrival_s for job in workload.jobs] == sorted(
        job.arrival_s for job in workload.jobs
    )


def test_work_and_duration_mean_the_same_gang() -> None:
    text = HEAD + (
        "jobs:\n"
        "- {name: a, duration: 10m, roles: {worker: {replicas: 4}}}\n"
        "- {name: b, work: 40m, roles: {worker: {replicas: 4}}}\n"
        "- {name: c, work: 40m, speed: 2.0, roles: {worker: {replicas: 4}}}\n"
    )
    found = {job.name: job for job in parse_workload(text, "w").jobs}
    assert found["a"].duration_s == found["b"].duration_s == 600.0
    assert found["c"].duration_s == 300.0


def test_a_kind_that_a_cap_does_not_name_is_not_limited() -> None:
    """Pool b divides the CPUs; pool a, whose cap names devices only, may use them all the same."""
    text = HEAD + (
        "pools: [{name: a, cap: {gpu: 1}}, {name: b, guaranteed: {cpu: 2}}]\n"
        "jobs:\n"
        "- {name: wide, duration: 1m, pool: a, roles: {w: {resources: {cpu: 2}}}}\n"
        "- {name: deep, duration: 1m, pool: a, roles: {w: {resources: {gpu: 2}}}}\n"
    )
    workload = parse_workload(text, "w")
    nodes = [node("n0", 4, gpus=2)]
    found = simulate(workload, nodes, QueueScheduler(nodes, workload.all_pools()))
    assert [record.ended_s for record in found.records] == [60.0, None]
    assert found.figures.never_started["deep"] == (
        "deep can never start: it asks for 2 gpu, and pool a may hold 1 at most."
    )


def test_wishes_and_traffic_reach_the_gang() -> None:
    text = HEAD + (
        "jobs:\n"
        "- name: a\n"
        "  duration: 10m\n"
        "  traffic: {bytesPerStep: 8Mi}\n"
        "  roles:\n"
        "    ps: {nodeName: n1}\n"
        "    worker:\n"
        "      nodeAffinity:\n"
        "        requiredDuringSchedulingIgnoredDuringExecution:\n"
        "          nodeSelectorTerms:\n"
        "          - matchExpressions: [{key: disk, operator: Exists}]\n"
    )
    gang = parse_workload(text, "w").jobs[0].gang()
    server, worker = gang.members
    assert gang.traffic == Traffic(Pattern.PARAMETER_SERVER, 8 << 20)
    assert server.wish.node == "n1"
    assert [str(term) for term in worker.wish.required] == ["disk Exists"]


def test_a_priority_may_be_the_name_of_a_class() -> None:
    text = HEAD + "jobs: [{name: a, work: 1s, priority: %s, roles: {w: {}}}]"
    assert parse_workload(text % "high", "w").jobs[0].priority == 60
    assert parse_workload(text % "nightly", "w", {"nightly": -9}).jobs[0].priority == -9
    line = "name,arrival_s,work_s,priority\na,0,1,%s\n"
    assert parse_csv(line % "urgent", "t.csv").jobs[0].priority == 600
    assert parse_csv(line % "-3", "t.csv").jobs[0].priority == -3
    with pytest.raises(BadInput, match="did you mean 'nightly'"):
        parse_csv(line % "nightyl", "t.csv", {"nightly": -9, "daily": 1})


def test_a_csv_line_is_a_job() -> None:
    text = (
        "name,arrival_s,duration_s,replicas,cpu,memory,gpu,pool,priority,preemptible\n"
        "b,60,3600,4,2,8Gi,1,ads,10,false\n"
        "a,0,1.5,1,500m,,,,,\n"
    )
    first, second = parse_csv(text, "t.csv").jobs
    assert (first.name, first.arrival_s, first.duration_s, first.members) == ("a", 0.0, 1.5, 1)
    assert first.roles[0].resources == Resources(500)
    assert first.preemptible
    assert second.demand == Resources(8000, 4 * 8 * 1024**3, 4)
    assert (second.pool, second.priority, second.preemptible) == ("ads", 10, False)


@pytest.mark.parametrize(
    ("body", "path", "found", "accepted"),
    [
        ("jobs: []", "jobs", "an empty list", "at least 1 entry"),
        (
            "jobs: [{name: a, work: 1s, priority: hi, roles: {w: {}}}]",
            "jobs[0].priority",
            "the text 'hi'",
            "one of: low, normal, high, urgent",
        ),
        (
            "jobs: [{name: a, work: 1s, traffic: {perServer: [1]}, roles: {ps: {replicas: 2}}}]",
            "jobs[0].traffic.perServer",
            "1 amounts",
            "2, one for each ps",
        ),
        ("jobs: [{name: a, roles: {w: {}}}]", "jobs[0].duration", "neither", "one of"),
        (
            "jobs: [{name: a, duration: 1s, work: 1s, roles: {w: {}}}]",
            "jobs[0].duration",
            "both",
            "one of: duration, work",
        ),
        ("jobs: [{name: a, duration: 0s, roles: {w: {}}}]", "jobs[0].duration", "0", "more than"),
        ("jobs: [{name: a, duration: 1s, roles: {}}]", "jobs[0].roles", "empty", "at least 1"),
        (
            "jobs: [{name: a, duration: 1s, roles: {w: {replicas: 0}}}]",
            "jobs[0].roles.w.replicas",
            "the number 0",
            "at least 1",
        ),
        (
            "jobs: [{name: a, duration: 1s, roles: {w: {}}, minAvailable: 2}]",
            "jobs[0].minAvailable",
            "the number 2",
            "at most 1",
        ),
        (
            "jobs: [{name: a, duration: 1s, roles: {w: {}}}, {name: a, work: 1s, roles: {w: {}}}]",
            "jobs[1].name",
            "'a' a second time",
            "each name once",
        ),
        (
            "jobs: [{name: a, duratoin: 1s, roles: {w: {}}}]",
            "jobs[0].duratoin",
            "unknown field",
            "did you mean 'duration'?",
        ),
        (
            "pools: [{name: p, weight: 0.0}]\njobs: [{name: a, duration: 1s, roles: {w: {}}}]",
            "pools[0].weight",
            "0.0",
            "more than 0",
        ),
        (
            "pools: [{name: p, cap: {example.com/fpga: 2}}]\n"
            "jobs: [{name: a, duration: 1s, roles: {w: {}}}]",
            "pools[0].cap.'example.com/fpga'",
            "example.com/fpga",
            "cpu, memory or gpu",
        ),
    ],
)
def test_bad_yaml_is_refused_with_its_place(
    body: str, path: str, found: str, accepted: str
) -> None:
    with pytest.raises(BadInput) as caught:
        parse_workload(HEAD + body, "w.yaml")
    problem = next(one for one in caught.value.problems if one.path == path)
    assert found in problem.found
    assert accepted in problem.accepted
    assert problem.line is not None


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("", "column 'name'", 1),
        ("name,arrival_s\n", "file", None),
        ("name,arrival_s,color\n", "column 'color'", 1),
        ("name,arrival_s,name\n", "header", 1),
        ("name,arrival_s,duration_s\na,0\n", "line", 2),
        ("name,arrival_s,duration_s\na,soon,1\n", "arrival_s", 2),
        ("name,arrival_s,duration_s\na,0,1\na,0,1\n", "name", 3),
        ("name,arrival_s,duration_s,gpu\na,0,1,half\n", "gpu", 2),
        ("name,arrival_s,duration_s,preemptible\na,0,1,maybe\n", "preemptible", 2),
        ("name,arrival_s,duration_s\na,nan,1\n", "arrival_s", 2),
        ("name,arrival_s\na,0\n", "duration_s", 2),
    ],
)
def test_bad_csv_is_refused_with_its_place(text: str, path: str, line: int | None) -> None:
    with pytest.raises(BadInput) as caught:
        parse_csv(text, "t.csv")
    assert (path, line) in [(one.path, one.line) for one in caught.value.problems]


def test_files_that_cannot_be_read_are_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "LARGEST_CSV_BYTES", 10)
    large, binary = tmp_path / "large.csv", tmp_path / "binary.csv"
    large.write_text("name,arrival_s,duration_s\n")
    binary.write_bytes(b"\xff\xfe\n")
    for path in (large, binary, tmp_path, tmp_path / "none.csv"):
        with pytest.raises(BadInput):
            load_workload(path)
