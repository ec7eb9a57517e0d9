"""Asking the first member of a job about all of them, through the API server."""

from __future__ import annotations

import time

from mooring.bodies.kubernetes import names
from mooring.bodies.kubernetes.pods import PodView
from mooring.bodies.kubernetes.token import PROOF_HEADER, question
from mooring.kubeapi.client import Client
from mooring.kubeapi.document import Json
from mooring.kubeapi.errors import Unreachable


async def ask_launcher(client: Client, leader: PodView, token: str, path: str) -> Json:
    """Raises Unreachable for an answer of somebody who does not hold the job's token."""
    asked = question(token, path, time.time())
    answer = await client.proxy(leader.name, leader.namespace, names.MEETING_PORT, asked.path)
    if not asked.answered_by_holder(answer.raw, answer.headers.get(PROOF_HEADER, "")):
        raise Unreachable(f"{leader.name}: whoever answers there does not hold the job's token")
    return answer.read()
