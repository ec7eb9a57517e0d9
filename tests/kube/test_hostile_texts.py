"""Texts that would do harm in a shell, a template or a parser, sent through a real API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kube.cluster.client import ApiError
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import NodeShape, fake_nodes
from kube.cluster.puppets import puppets
from kube.operator import Jobs, jobs_path, training_job
from kube.operator import operator as run_operator
from mooring.spec.schema import job_schema
from support.hostile import hostile
from support.text_fields import put, text_fields

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

#: Of all texts, in each field; all of them in all fields: tests/unit/kube/test_hostile_texts.py.
TEXTS_A_FIELD = 5


def test_hostile_texts_arrive_as_they_are_or_are_refused(
    control_plane: ControlPlane, namespace: str, jobs: Jobs, tmp_path: Path
) -> None:
    mark = tmp_path / "executed"
    texts = hostile(mark)
    wanted = training_job(
        "verbatim",
        roles={"worker": 1},
        env={f"T{index}": one for index, one in enumerate(texts)},
        kubernetes={"annotations": {f"t/{index}": one for index, one in enumerate(texts)}},
    )
    wanted["spec"]["roles"]["worker"]["command"] = ["program", *texts]
    admin = control_plane.admin
    with (
        fake_nodes(admin, 2, NodeShape(cpus=16), "hostile"),
        puppets(admin),
        run_operator(control_plane, namespace) as operator,
    ):
        jobs.create(wanted)
        jobs.wait_phase("verbatim", "Running", deadline_s=90)
        [pod] = jobs.pods("verbatim")
        container = pod["spec"]["containers"][0]
        env = {one["name"]: one.get("value", "").replace("$$", "$") for one in container["env"]}
        assert [env[f"T{index}"] for index in range(len(texts))] == texts
        assert json.loads(env["MOORING_CONTRACT"])["argv"][1:] == texts
        found = pod["metadata"]["annotations"]
        assert [found[f"t/{index}"] for index in range(len(texts))] == texts
        tried, stored = in_every_field(control_plane, namespace, texts)
        assert stored > tried / 4
        # Those that wait would go before it.
        admin.delete(jobs_path(namespace))
        jobs.create(training_job("after"))
        jobs.wait_phase("after", "Running", deadline_s=120)
        assert operator.defects == []
        print(f"\n{tried} hostile jobs: {stored} stored, the others refused by the server")
    assert not mark.exists()


def in_every_field(plane: ControlPlane, namespace: str, texts: list[str]) -> tuple[int, int]:
    """Each in a job of its own, which the operator gets to see: (jobs sent, jobs stored)."""
    tried = stored = 0
    for field in text_fields(job_schema()):
        for _ in range(TEXTS_A_FIELD):
            made = training_job(f"h-{tried}", roles={"worker": 1})
            made = put(made, field, texts[tried % len(texts)])
            tried += 1
            try:
                plane.admin.create(jobs_path(namespace), made)
                stored += 1
            except ApiError as error:
                assert error.status in (400, 413, 422), (field, error)
    return tried, stored
