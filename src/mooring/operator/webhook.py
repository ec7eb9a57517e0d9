"""The admission webhook: a job or pool is refused before it is stored, in the words for a file.

Answers `AdmissionReview` v1. What is asked is the real loader, passed in as `check`; nothing here
knows a rule of its own. An update that leaves the spec as it is always passes, so that labels and
finalizers of a job from before a stricter version can still be changed. A review that cannot be
read is the caller's error (400), not a refusal. Logs name fields, never what stands in them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web

from mooring.backends.kubernetes.jobs.discretion import discreet
from mooring.backends.kubernetes.jobs.pool_access import access_of
from mooring.install.names import WEBHOOK_PATH
from mooring.model.errors import BadInput, Problem
from mooring.operator.caches import unreadable
from mooring.spec.changes import forbidden_changes
from mooring.spec.job import TrainingJob
from mooring.spec.load import check_pool

log = logging.getLogger(__name__)

Document = Mapping[str, Any]
#: The job that an object means. Raises BadInput with every problem.
Check = Callable[[Document], TrainingJob]
#: Why a job of this namespace may not use its pool or its priority.
Allowed = Callable[[TrainingJob, str], Sequence[Problem]]

#: Two objects of the largest size that an API server takes, and what is around them.
_LARGEST_REVIEW_BYTES = 8 * 1024 * 1024
_LONGEST_MESSAGE = 4096
#: Phases in which a job holds nothing: its members may still be given another shape.
_WITHOUT_PLACE = ("", "Queued", "Suspended")


def webhook_application(
    check: Check, allowed: Allowed = lambda job, namespace: ()
) -> web.Application:
    """Serves the path that the webhook's registration names."""

    async def validate(request: web.Request) -> web.Response:
        try:
            review = json.loads(await request.read())
            uid, admission = _parts(review)
        except (ValueError, KeyError, TypeError, RecursionError):
            return web.Response(status=400, text="accepted: an AdmissionReview of version v1\n")
        # A job of many members takes a while to check; others must not wait for it.
        try:
            problems = await asyncio.to_thread(refusals, admission, check, allowed)
        except Exception as error:
            # An error of ours would let the object pass where the webhook is set to be ignored.
            log.exception("a review: a defect; the object is refused")
            problems = [unreadable(error)]
        return web.json_response(_answer(uid, problems))

    application = web.Application(client_max_size=_LARGEST_REVIEW_BYTES)
    application.router.add_post(WEBHOOK_PATH, validate)
    return application


def refusals(
    admission: Document, check: Check, allowed: Allowed = lambda job, namespace: ()
) -> Sequence[Problem]:
    """What is wrong with the object of an admission request; empty: it may be stored."""
    new = admission.get("object") or {}
    old = admission.get("oldObject") or {}
    operation = admission.get("operation")
    if operation not in ("CREATE", "UPDATE"):
        return ()
    if operation == "UPDATE" and new.get("spec") == old.get("spec"):
        return ()
    if new.get("kind") == "Pool":
        return _pool_problems(new)
    try:
        job = check(new)
    except BadInput as error:
        return error.problems
    namespace = str(admission.get("namespace") or "")
    if operation == "CREATE":
        return allowed(job, namespace)
    try:
        before = check(old)
    except BadInput:
        # It was stored past this check and never ran: whatever makes it good is welcome.
        return allowed(job, namespace)
    if (before.spec.pool, before.spec.priority) != (job.spec.pool, job.spec.priority):
        # A job that was there before its pool became stricter can still be changed otherwise.
        refused = allowed(job, namespace)
        if refused:
            return refused
    phase = str((old.get("status") or {}).get("phase") or "")
    return forbidden_changes(before, job, held=phase not in _WITHOUT_PLACE)


def _pool_problems(obj: Document) -> Sequence[Problem]:
    """A pool is what a cluster file says of one, with the object's name."""
    name, spec = (obj.get("metadata") or {}).get("name"), obj.get("spec")
    try:
        access_of(check_pool({**(spec if isinstance(spec, dict) else {}), "name": name}, "pool"))
    except BadInput as error:
        return [
            replace(
                problem, path="metadata.name" if problem.path == "name" else f"spec.{problem.path}"
            )
            for problem in error.problems
        ]
    return ()


def _parts(review: Document) -> tuple[str, Document]:
    if review["apiVersion"] != "admission.k8s.io/v1" or review["kind"] != "AdmissionReview":
        raise ValueError("another kind or version")
    request = review["request"]
    if not isinstance(request, dict) or not isinstance(request["uid"], str):
        raise ValueError("no request")
    for name in ("object", "oldObject"):
        if not isinstance(request.get(name), dict | None):
            raise ValueError(f"{name} is no object")
    return request["uid"], request


def _answer(uid: str, problems: Sequence[Problem]) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": not problems}
    if problems:
        sentences = "; ".join(map(str, problems))
        response["status"] = {
            "metadata": {},
            "status": "Failure",
            "reason": "Invalid",
            "code": 422,
            "message": _shortened(sentences),
            "details": {
                "causes": [
                    {
                        "reason": "FieldValueInvalid",
                        "field": problem.path,
                        "message": f"found {problem.found}; accepted: {problem.accepted}",
                    }
                    for problem in problems
                ]
            },
        }
        log.info(
            "refused: %s", _shortened(", ".join(discreet(problem).path for problem in problems))
        )
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."
