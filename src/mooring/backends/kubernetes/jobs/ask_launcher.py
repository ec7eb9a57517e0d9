"""Asking the first member of a job about all of them, through the API server."""

from __future__ import annotations

import time

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Json
from mooring.backends.kubernetes.api.errors import Unreachable
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.backends.kubernetes.objects.token import PROOF_HEADER, question


async def ask_launcher(client: Client, leader: PodView, token: str, path: str) -> Json:
    """Raises Unreachable for an answer of somebody who does not hold the job's token."""
    asked = question(token, path, time.time())
    answer = await client.proxy(leader.name, leader.namespace, names.MEETING_PORT, asked.path)
    if not asked.answered_by_holder(answer.raw, answer.headers.get(PROOF_HEADER, "")):
        raise Unreachable(f"{leader.name}: whoever answers there does not hold the job's token")
    return answer.read()
