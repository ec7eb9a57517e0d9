"""The admission webhook, called over HTTP as an API server calls it."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from mooring.operator.webhook import webhook_application
from support.admission import check_object

PATH = "/validate"

JOB: dict[str, Any] = {
    "apiVersion": "mooring.dev/v1",
    "kind": "TrainingJob",
    "metadata": {
        "name": "demo",
        "namespace": "research",
        "uid": "0b7e5a1c",
        "labels": {"team": "ads"},
        "annotations": {"a": "b"},
        "managedFields": [],
    },
    "spec": {
        "framework": "tensorflow",
        "strategy": "parameter-server",
        "image": "registry.example/train:1",
        "command": ["python", "train.py"],
        "roles": {
            "ps": {"replicas": 2, "resources": {"cpu": "1"}},
            "worker": {"replicas": 4, "env": {"EMOJI": "\U0001f600 \x7f", "N": "1e30"}},
        },
    },
}


def ask(body: Any, *, raw: bytes | None = None) -> tuple[int, Any]:
    async def call() -> tuple[int, Any]:
        async with TestClient(TestServer(webhook_application(check_object))) as client:
            sent = {"data": raw} if raw is not None else {"json": body}
            async with client.post(PATH, **sent) as response:
                if response.status == 200:
                    return 200, await response.json()
                return response.status, await response.text()

    return asyncio.run(call())


def review(new: Any, old: Any = None, operation: str = "CREATE") -> dict[str, Any]:
    request = {"uid": "42", "operation": operation, "object": new, "oldObject": old}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def changed(path: str, value: Any, job: dict[str, Any] = JOB) -> dict[str, Any]:
    result = copy.deepcopy(job)
    here = result
    *way, last = path.split("/")
    for part in way:
        here = here.setdefault(part, {})
    if value is None:
        del here[last]
    else:
        here[last] = value
    return result


def answer(new: Any, old: Any = None) -> dict[str, Any]:
    status, body = ask(review(new, old, "CREATE" if old is None else "UPDATE"))
    assert status == 200
    assert body["apiVersion"] == "admission.k8s.io/v1" and body["kind"] == "AdmissionReview"
    response: dict[str, Any] = body["response"]
    assert response["uid"] == "42"
    return response


def test_a_good_job_is_allowed() -> None:
    assert answer(JOB) == {"uid": "42", "allowed": True}


@pytest.mark.parametrize(
    ("path", "value", "field", "found", "accepted"),
    [
        ("spec/roles/ps/resources/cpu", "2 cpus", "spec.roles.ps.resources.cpu", "2 cpus", "500m"),
        ("spec/framework", "tensorflw", "spec.framework", "tensorflw", "tensorflow"),
        ("spec/roles/Worker", {}, "spec.roles.Worker", "Worker", "lower-case"),
        ("spec/timeLimit", "0s", "spec.timeLimit", "0s", "more than 0"),
        ("spec/kubernetes/queue", "q", "spec.kubernetes.queue", "'q'", "volcano"),
        ("spec/pinning", "exclusive", "spec.roles.worker.resources.cpu", "nothing", "whole number"),
        ("spec/env/MOORING_X", "1", "spec.env.MOORING_X", "MOORING_X", "set by Mooring"),
    ],
)  # fmt: skip
def test_a_bad_job_is_refused_with_field_found_and_accepted(
    path: str, value: Any, field: str, found: str, accepted: str
) -> None:
    response = answer(changed(path, value))
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    causes = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
    assert found in causes[field] and accepted in causes[field]
    assert f"{field}: found " in status["message"]
    assert "Traceback" not in str(response) and "pydantic" not in str(response)


def test_all_problems_are_told_at_once() -> None:
    bad = changed("spec/threads", 0, changed("spec/roles/ps/replicas", -1))
    causes = answer(bad)["status"]["details"]["causes"]
    assert {cause["field"] for cause in causes} == {"spec.threads", "spec.roles.ps.replicas"}


ALLOWED_WHILE_RUNNING = [
    ("spec/roles/worker/replicas", 6),
    ("spec/priority", 5),
    ("spec/timeLimit", "2h"),
    ("spec/kubernetes/suspend", True),
    ("spec/kubernetes/ttlAfterFinished", "1h"),
    ("spec/failurePolicy/restart", "gang"),
    ("metadata/labels", {"team": "search"}),
    # the same amount, written in another way
    ("spec/roles/ps/resources/cpu", "1000m"),
]
SHAPE = [
    ("spec/image", "registry.example/train:2", "spec.image"),
    ("spec/roles/worker/env", {"A": "1"}, "spec.roles.worker.env"),
    ("spec/roles/ps/resources/cpu", "2", "spec.roles.ps.resources"),
    ("spec/kubernetes/volumes", [{"name": "v", "emptyDir": {}}], "spec.kubernetes.volumes"),
    ("spec/pool", "ads", "spec.pool"),
]
IDENTITY = [
    ("spec/framework", "indexed", "spec.framework"),
    ("spec/strategy", "all-reduce", "spec.strategy"),
    ("spec/roles/chief", {"replicas": 1}, "spec.roles.chief"),
]


@pytest.mark.parametrize(("path", "value"), ALLOWED_WHILE_RUNNING)
def test_what_may_change_while_a_job_runs(path: str, value: Any) -> None:
    running = changed("status/phase", "Running")
    assert answer(changed(path, value, running), running)["allowed"] is True


@pytest.mark.parametrize(("path", "value", "field"), SHAPE)
def test_members_keep_their_shape_while_the_job_has_a_place(
    path: str, value: Any, field: str
) -> None:
    running = changed("status/phase", "Running")
    response = answer(changed(path, value, running), running)
    assert response["allowed"] is False
    assert response["status"]["details"]["causes"][0]["field"] == field
    assert "suspend" in response["status"]["message"]


@pytest.mark.parametrize("phase", [None, "Queued", "Suspended"])
@pytest.mark.parametrize(("path", "value", "field"), SHAPE)
def test_members_may_be_reshaped_while_the_job_holds_nothing(
    path: str, value: Any, field: str, phase: str | None
) -> None:
    waiting = changed("status/phase", phase) if phase else JOB
    assert answer(changed(path, value, waiting), waiting)["allowed"] is True


@pytest.mark.parametrize(("path", "value", "field"), IDENTITY)
def test_what_a_job_is_never_changes(path: str, value: Any, field: str) -> None:
    new = changed(path, value)
    if field == "spec.framework":
        new = changed("spec/strategy", None, new)
    if field == "spec.strategy":
        new = changed("spec/roles/ps", None, new)
    response = answer(new, JOB)
    assert response["allowed"] is False
    assert field in {cause["field"] for cause in response["status"]["details"]["causes"]}


def test_a_role_cannot_be_removed() -> None:
    old = changed("spec/roles/chief", {"replicas": 1})
    response = answer(JOB, old)
    assert "spec.roles.chief: found nothing" in response["status"]["message"]


def test_a_bad_job_from_earlier_can_be_mended_labelled_and_deleted() -> None:
    bad = changed("spec/roles/ps/replicas", -1)
    assert answer(JOB, bad)["allowed"] is True
    assert answer(changed("metadata/labels", {}, bad), bad)["allowed"] is True
    assert ask(review(None, bad, "DELETE"))[1]["response"]["allowed"] is True


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {}},
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 1}},
        review("text"),
    ],
)
def test_what_is_no_review_is_the_callers_mistake(body: Any) -> None:
    status, text = ask(body)
    assert status == 400 and "AdmissionReview" in text


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_the_callers_mistake(raw: bytes) -> None:
    assert ask(None, raw=raw)[0] == 400


def test_more_than_any_server_sends_is_not_read() -> None:
    assert ask(None, raw=b" " * (8 * 1024 * 1024 + 1))[0] == 413


def test_an_object_without_a_spec_is_refused_not_a_crash() -> None:
    response = answer(changed("spec", None))
    assert response["allowed"] is False
    assert response["status"]["details"]["causes"][0]["field"] == "spec"


def test_a_long_list_of_problems_is_cut() -> None:
    roles = {f"R{number}" + "x" * 60: {} for number in range(200)}
    assert len(answer(changed("spec/roles", roles))["status"]["message"]) <= 4096


def test_the_log_names_the_field_but_not_the_value(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    message = answer(changed("spec/env/TOKEN", 271828))["status"]["message"]
    assert "271828" in message
    assert "spec.env.TOKEN" in caplog.text
    assert "271828" not in caplog.text


POOL: dict[str, Any] = {
    "apiVersion": "mooring.dev/v1",
    "kind": "Pool",
    "metadata": {"name": "ads"},
    "spec": {"guaranteed": {"gpu": 8}, "cap": {"gpu": 16}, "weight": 2},
}


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec/cap", {"gpu": "many"}, "spec.cap.gpu"),
        ("spec/guaranteed", {"example.com/fpga": 1}, "spec.guaranteed.example.com/fpga"),
        ("spec/weight", 0, "spec.weight"),
        ("metadata/name", "7days", "metadata.name"),
    ],
)
def test_pools_are_checked_as_in_a_cluster_file(path: str, value: Any, field: str) -> None:
    assert answer(POOL)["allowed"] is True
    response = answer(changed(path, value, POOL))
    assert response["allowed"] is False
    fields = {cause["field"].replace("'", "") for cause in response["status"]["details"]["causes"]}
    assert field in fields
