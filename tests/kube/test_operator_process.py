"""The operator as a process: a gang from its creation to its end, with a kill on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.cluster.puppets import Puppets, puppets
from kube.operator import Flags, Jobs, OperatorProcess, install, training_job
from kube.operator import operator as run_operator
from mooring.install import InstallSettings, to_yaml
from mooring.install.rbac import operator_roles
from support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]


@pytest.fixture(scope="module")
def strings(control_plane: ControlPlane) -> Iterator[Puppets]:
    admin = control_plane.admin
    with fake_nodes(admin, 3, NodeShape(cpus=4)), puppets(admin) as made:
        yield made


def finish(strings: Puppets, jobs: Jobs, name: str, namespace: str) -> None:
    for pod in jobs.pods(name):
        strings.finish(namespace, pod["metadata"]["name"])


def test_a_gang_succeeds_with_the_rights_of_the_installed_account(
    control_plane: ControlPlane, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    with run_operator(control_plane, namespace, Flags(as_account=True)) as operator:
        jobs.create(training_job("pair"))
        jobs.wait_phase("pair", "Running")
        assert [pod["metadata"]["name"] for pod in jobs.pods("pair")] == [
            "pair-worker-0",
            "pair-worker-1",
        ]
        finish(strings, jobs, "pair", namespace)
        jobs.wait_phase("pair", "Succeeded")
        assert operator.defects == []


def test_an_operator_looks_after_the_namespaces_that_it_is_told(
    control_plane: ControlPlane, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    """With the roles of `moor install --watch A --watch B`: it may not even list jobs elsewhere."""
    second, third = control_plane.create_namespace(), control_plane.create_namespace()
    settings = InstallSettings(watch=(namespace, second))
    flags = Flags(as_account=True, more=(f"--namespace={second}",))
    try:
        install(control_plane)
        apply_roles(control_plane, operator_roles(settings))
        with run_operator(control_plane, namespace, flags) as operator:
            others = [Jobs(control_plane, one) for one in (second, third)]
            for one in (jobs, *others):
                one.create(training_job("pair"))
            for place, mine in ((namespace, jobs), (second, others[0])):
                mine.wait_phase("pair", "Running")
                finish(strings, mine, "pair", place)
                mine.wait_phase("pair", "Succeeded")
            assert others[1].status("pair") == {}
            assert operator.defects == []
    finally:
        apply_roles(control_plane, operator_roles(InstallSettings()))
        for place in (second, third):
            control_plane.delete_namespace(place)


def test_jobs_that_were_backed_up_start_as_new_ones(
    control_plane: ControlPlane,
    operator: OperatorProcess,
    namespace: str,
    jobs: Jobs,
    strings: Puppets,
) -> None:
    """As docs/operations.md says it, with the fields that its command takes out."""
    jobs.create(training_job("kept"))
    jobs.wait_phase("kept", "Running")
    before = [pod["metadata"]["uid"] for pod in jobs.pods("kept")]
    saved = jobs.get("kept")
    del saved["status"]
    for added in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        saved["metadata"].pop(added, None)
    jobs.delete("kept")
    until(lambda: not jobs.pods("kept"), "nothing is left of it", 60)
    applied = control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(saved))
    assert applied.returncode == 0, applied.stderr
    jobs.wait_phase("kept", "Running")
    after = [pod["metadata"]["uid"] for pod in jobs.pods("kept")]
    assert len(after) == 2 and not set(after) & set(before)
    assert operator.defects == []


def apply_roles(plane: ControlPlane, roles: list[Json]) -> None:
    applied = plane.kubectl("apply", "-f", "-", stdin=to_yaml(roles))
    assert applied.returncode == 0, applied.stderr


def test_a_killed_operator_is_followed_by_one_that_goes_on(
    operator: OperatorProcess, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    jobs.create(training_job("pair"))
    jobs.wait_phase("pair", "Running")
    before = [pod["metadata"]["uid"] for pod in jobs.pods("pair")]
    operator.kill()
    finish(strings, jobs, "pair", namespace)
    operator.start()
    jobs.wait_phase("pair", "Succeeded")
    assert [pod["metadata"]["uid"] for pod in jobs.pods("pair")] == before
    assert operator.defects == []


def test_a_frozen_leader_is_replaced_and_does_nothing_when_it_wakes(
    control_plane: ControlPlane, namespace: str, jobs: Jobs, strings: Puppets
) -> None:
    flags = Flags(lease_s=2)
    with run_operator(control_plane, namespace, flags) as first:
        until(lambda: "mooring_leader 1.0" in first.page("/metrics"), "the first one leads")
        with run_operator(control_plane, namespace, flags) as second:
            first.freeze()
            jobs.create(training_job("pair"))
            jobs.wait_phase("pair", "Running")
            assert "mooring_leader 1.0" in second.page("/metrics")
            first.thaw()
            until(lambda: "mooring_leader 0.0" in first.page("/metrics"), "it has noticed")
            assert jobs.status("pair")["epoch"] == 0
            assert first.defects == second.defects == []
