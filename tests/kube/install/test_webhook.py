"""Jobs and pools are taken or refused before they are stored, by schema and webhook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from test_bad_job_files import _DELETE, WRONG_VALUES

from kube.cluster.client import ApiError
from kube.cluster.control_plane import ControlPlane
from kube.install.objects import (
    GROUP,
    JOBS,
    every_field,
    meant,
    refused_by_webhook,
    stored,
)
from kube.install.serving import REGISTRATION
from mooring.spec import load_job, parse_job
from support.waiting import until

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/job.yaml"))

#: An API server drops fields that its schema does not name before anybody could complain. kubectl
#: and `moor submit` refuse them.
DROPPED = ("replcas", "node_selector", "time_limit", "zzz")


def changed(path: str, value: object) -> dict[str, Any]:
    """That job with one value changed, or taken out."""
    job = every_field()
    here: Any = job
    *way, last = [int(part) if part.isdecimal() else part for part in path.split("/")]
    for part in way:
        here = here[part]
    if value is _DELETE:
        del here[last]
    else:
        here[last] = value
    return job


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_is_taken_as_it_is_and_comes_back_the_same(
    plane: ControlPlane, webhook: None, path: Path
) -> None:
    """With an image, which pods need and processes do not."""
    document = yaml.safe_load(path.read_text())
    document["spec"].setdefault("image", "registry.example/train:1")
    answer = plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(document))
    assert answer.returncode == 0, answer.stderr
    job = load_job(path, [f"image={document['spec']['image']}"])
    stored_path = f"{JOBS}/{job.metadata.name}"
    try:
        assert meant(plane.admin.get(stored_path)) == job
    finally:
        plane.admin.delete(stored_path)


def test_a_job_with_every_field_comes_back_the_same(plane: ControlPlane, webhook: None) -> None:
    with stored(plane, every_field()) as made:
        assert meant(made) == parse_job(yaml.safe_dump(every_field()), "job")


def _dropped(path: str) -> bool:
    return path.rpartition("/")[2] in DROPPED


#: Where JSON has no difference (1.0 is a whole number), or the server drops the value (null).
HARMLESS = [("spec/roles/worker/replicas", 1.0), ("spec/env", {"A": None})]

WRONG = [
    pytest.param(path, value, id=f"{path}={value!r:.40}")
    for path, value, *_ in WRONG_VALUES
    if not _dropped(path) and (path, value) not in HARMLESS
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_what_a_job_file_may_not_say_is_refused(
    plane: ControlPlane, webhook: None, path: str, value: object
) -> None:
    with pytest.raises(ApiError) as refused:
        plane.admin.create(JOBS, changed(path, value), dryRun="All")
    # 500: what this version of the server says of an object without an apiVersion
    assert refused.value.status in (400, 422) or path == "apiVersion"


@pytest.mark.parametrize(
    ("path", "value"),
    [row[:2] for row in WRONG_VALUES if _dropped(row[0]) and row[1] is not None],
)
def test_what_the_server_would_drop_is_refused_by_kubectl(
    plane: ControlPlane, path: str, value: object
) -> None:
    answer = plane.kubectl(
        "create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(changed(path, value))
    )
    assert answer.returncode == 1
    assert "unknown field" in answer.stderr and path.rpartition("/")[2] in answer.stderr


def test_a_refusal_names_field_found_and_accepted(plane: ControlPlane, webhook: None) -> None:
    text = yaml.safe_dump(changed("spec/successPolicy/roles", ["wrker"]))
    answer = plane.kubectl("create", "-f", "-", stdin=text)
    assert answer.returncode == 1
    assert "spec.successPolicy.roles[0]: found unknown role 'wrker'" in answer.stderr
    assert "did you mean 'worker'?" in answer.stderr


def test_a_job_may_grow_but_not_become_another(plane: ControlPlane, webhook: None) -> None:
    with stored(plane, every_field()):
        path = f"{JOBS}/wide-deep"
        plane.admin.patch(f"{path}/status", {"status": {"phase": "Running"}})
        plane.admin.patch(path, {"spec": {"roles": {"worker": {"replicas": 3}}}})
        for change, field in [
            ({"framework": "indexed", "strategy": None, "traffic": None}, "spec.framework"),
            ({"roles": {"ps": None}}, "spec."),
            ({"image": "registry.example/other:1"}, "spec.image"),
        ]:
            with pytest.raises(ApiError, match=field) as refused:
                plane.admin.patch(path, {"spec": change})
            assert refused.value.status == 422


def test_what_no_schema_can_say_of_a_pool_the_webhook_says(
    plane: ControlPlane, webhook: None
) -> None:
    pool = {
        "apiVersion": "mooring.dev/v1",
        "kind": "Pool",
        "metadata": {"name": "ads"},
        "spec": {"guaranteed": {"example.com/fpga": 8}},
    }
    with pytest.raises(ApiError, match="pools divide no others") as refused:
        plane.admin.create(f"{GROUP}/pools", pool)
    assert refused.value.status == 422


def test_without_a_webhook_that_answers_jobs_can_still_be_made(plane: ControlPlane) -> None:
    """The operator checks again; an installation must not be held up by its own checks."""
    before = plane.admin.get(REGISTRATION)["webhooks"]
    nobody = [{**one, "clientConfig": {"url": "https://localhost:1/"}} for one in before]
    plane.admin.patch(REGISTRATION, {"webhooks": nobody})
    try:
        until(lambda: not refused_by_webhook(plane), "the API server goes on without the webhook")
    finally:
        plane.admin.patch(REGISTRATION, {"webhooks": before})
