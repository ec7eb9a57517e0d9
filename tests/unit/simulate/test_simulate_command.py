"""`moor simulate`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.simulate import simulate
from mooring.model.errors import BadInput

EXAMPLES = Path(__file__).parents[3] / "examples" / "cluster"
CLUSTER = ("--cluster", str(EXAMPLES / "cluster.yaml"))
WORKLOAD = str(EXAMPLES / "workload.yaml")


def moor(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, list(arguments), catch_exceptions=False)


def test_the_table_has_every_figure() -> None:
    found = moor(WORKLOAD, *CLUSTER)
    assert found.exit_code == 0
    for name in ("makespan", "completion, p95", "queueing", "GPUs in use", "Jain", "preemptions"):
        assert name in found.output


def test_json_has_the_figures_the_series_and_each_job() -> None:
    document = json.loads(moor(WORKLOAD, *CLUSTER, "-o", "json").stdout)
    (one,) = document["simulations"]
    assert one["ended"] == one["jobs"] == len(one["job_list"]) == 7
    assert 0 < one["gpu_utilisation"] <= 1
    assert one["series"]


def test_two_profiles_side_by_side_in_one_page(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    arguments = ("--compare", "packed", "roomy", "-o", "html", "--file", str(page))
    assert moor("generated", "--jobs", "60", "--seed", "5", *CLUSTER, *arguments).exit_code == 0
    text = page.read_text()
    assert text.count("<svg") == 5
    assert "<script" not in text
    assert "packed" in text
    assert "second against first" in text


def test_the_same_seed_gives_the_same_figures() -> None:
    arguments = ("generated", "--jobs", "50", "--seed", "9", *CLUSTER, "-o", "json")
    one, two = (json.loads(moor(*arguments).stdout)["simulations"][0] for _ in range(2))
    one.pop("wall_s")
    two.pop("wall_s")
    assert one == two


def test_a_profile_from_a_file(tmp_path: Path) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text("name: mine\nscores: {tight: 500}\n")
    assert "mine" in moor(WORKLOAD, *CLUSTER, "--profile", str(profile)).output


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ((WORKLOAD, "--profile", "nope"), "--profile"),
        ((WORKLOAD, "--profile", "packed", "--compare", "packed", "roomy"), "--profile"),
        ((WORKLOAD, "--seed", "3"), "--seed"),
        ((WORKLOAD, "--load", "0.5"), "--load"),
        (("nowhere.yaml",), "file"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...], path: str) -> None:
    with pytest.raises(BadInput) as caught:
        moor(*arguments, *CLUSTER)
    assert [problem.path for problem in caught.value.problems] == [path]


@pytest.mark.parametrize(
    ("text", "path", "meant"),
    [
        ("scores: {tigth: 5}\n", "scores.tigth", "did you mean tight?"),
        ("filters: [resuorces]\n", "filters[0]", "did you mean resources?"),
        ("[]", "(document)", "a mapping"),
    ],
)
def test_a_profile_with_unknown_rules_is_refused(
    tmp_path: Path, text: str, path: str, meant: str
) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text(text)
    with pytest.raises(BadInput) as caught:
        moor(WORKLOAD, *CLUSTER, "--profile", str(profile))
    (problem,) = caught.value.problems
    assert problem.path == path
    assert meant in problem.accepted


def test_pools_of_the_cluster_file_count(tmp_path: Path) -> None:
    """Two jobs of 8 CPUs would fit at once; the pool may hold 8."""
    cluster, work = tmp_path / "c.yaml", tmp_path / "w.csv"
    cluster.write_text(
        "apiVersion: mooring.dev/v1\nkind: Cluster\n"
        "pools: [{name: ads, cap: {cpu: 8}}]\n"
        "nodes: [{name: n, cpus: 16, memory: 64Gi}]\n"
    )
    work.write_text("name,arrival_s,duration_s,cpu,pool\na,0,60,8,ads\nb,0,60,8,ads\n")
    found = json.loads(moor(str(work), "--cluster", str(cluster), "-o", "json").stdout)
    assert found["simulations"][0]["makespan_s"] == 120.0
