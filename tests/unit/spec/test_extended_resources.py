"""Extended resources as a job or cluster file may write them."""

from __future__ import annotations

import pytest

from mooring.frameworks.expand import expand
from mooring.model.errors import BadInput
from mooring.model.resources import Resources
from mooring.spec.load import parse_cluster, parse_job

JOB = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {{name: j}}
spec:
  framework: indexed
  command: [a]
  roles: {{worker: {{resources: {resources}}}}}
"""
CLUSTER = """
apiVersion: mooring.dev/v1
kind: Cluster
nodes:
  - {{name: n, cpus: 1, memory: 1Gi, extended: {extended}}}
"""


def asked(resources: str) -> Resources:
    return expand(parse_job(JOB.format(resources=resources), "job")).members[0].resources


@pytest.mark.parametrize(
    ("written", "name", "count"),
    [
        ("{example.com/fpga: 2}", "example.com/fpga", 2),
        ("{extended: {example.com/fpga: 2}}", "example.com/fpga", 2),
        ("{rdma/hca: 1}", "rdma/hca", 1),
        ("{example.com/fpga: 2k}", "example.com/fpga", 2000),
        ("{example.com/fpga: 2000m}", "example.com/fpga", 2),
        # 4 pages of 2 MiB are 8 x 1024 x 1024 bytes.
        ("{hugepages-2Mi: 8Mi}", "hugepages-2Mi", 8 << 20),
        ("{ephemeral-storage: 1Gi}", "ephemeral-storage", 1 << 30),
    ],
)
def test_what_is_accepted(written: str, name: str, count: int) -> None:
    assert asked(written).extended == ((name, count),)


@pytest.mark.parametrize(
    ("written", "path", "accepted"),
    [
        ("{example.com/fpga: 1.5}", "example.com/fpga", "a whole number"),
        ("{example.com/fpga: -1}", "example.com/fpga", "a whole number"),
        ("{example.com/fpga: true}", "example.com/fpga", "a whole number"),
        ("{extended: {example.com/fpga: x}}", "extended.example.com/fpga", "a whole number"),
        ("{hugepages-2Mi: 3Mi}", "hugepages-2Mi", "a multiple of the size of a page, 2Mi"),
        ("{hugepages-big: 1}", "hugepages-big", "hugepages- and a size"),
        ("{Example.com/fpga: 1}", "Example.com/fpga", "a name such as"),
        ("{example.com/: 1}", "example.com/", "a name such as"),
        ("{example.com/a/b: 1}", "example.com/a/b", "a name such as"),
        ("{kubernetes.io/batch: 1}", "kubernetes.io/batch", "a domain other than kubernetes.io"),
        ("{extended: {fpga: 1}}", "extended.fpga", "a name such as"),
        ("{nvidia.com/gpu: 1}", "nvidia.com/gpu", "'gpu' in 'resources'"),
        ("{gpus: 1}", "gpus", "did you mean 'gpu'?"),
        ("{extended: 3}", "extended", "a mapping"),
        ("{a/b: 1, extended: {a/b: 1}}", "a/b", "each name once"),
    ],
)
def test_what_is_refused(written: str, path: str, accepted: str) -> None:
    with pytest.raises(BadInput) as caught:
        asked(written)
    [problem] = caught.value.problems
    assert problem.path.replace("'", "").endswith(f"resources.{path}")
    assert problem.accepted.startswith(accepted)


def test_a_job_with_them_is_written_and_read_back() -> None:
    job = parse_job(JOB.format(resources="{cpu: 1, example.com/fpga: 2}"), "job")
    assert parse_job(job.to_yaml(), "job") == job


def test_nodes_have_them() -> None:
    [node] = parse_cluster(CLUSTER.format(extended="{example.com/fpga: 4}"), "cluster")
    assert node.capacity.count("example.com/fpga") == 4


def test_pools_do_not_divide_them() -> None:
    pools = "pools: [{name: a, guaranteed: {example.com/fpga: 1}}]\n"
    with pytest.raises(BadInput, match="pools divide no others"):
        parse_cluster(CLUSTER.format(extended="{}") + pools, "cluster")
