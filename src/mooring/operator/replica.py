"""One replica as a whole: the operator, which acts when it leads, and the webhook, which serves.

They share nothing but the process: the webhook needs no lease, and follows only pools.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.backends.kubernetes.api.cache import Cache
from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.errors import Conflict
from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess
from mooring.backends.kubernetes.api.resources import POOL, VALIDATING_WEBHOOK
from mooring.backends.kubernetes.jobs.pools import access_rules, parse_pool
from mooring.backends.kubernetes.jobs.training_job import parse_training_job
from mooring.brain.queue.order import CLASSES
from mooring.install.names import WEBHOOK_CONFIGURATION, webhook_host
from mooring.model.errors import Problem
from mooring.operator.main import ReplicaOptions, run_operator
from mooring.operator.serving import open_port, serve_webhook
from mooring.operator.webhook import webhook_application
from mooring.planning import priority_of
from mooring.spec import TrainingJob


@dataclass(frozen=True)
class Webhook:
    """Where it listens, and the namespace whose Service leads there."""

    port: int
    namespace: str


async def run_replica(
    access: ClusterAccess, process: ReplicaOptions, webhook: Webhook | None
) -> None:
    """Until SIGTERM or SIGINT, or until either of the two fails."""
    if webhook is None:
        await run_operator(access, process)
        return
    # Opened first: a port that is taken ends the replica before it does anything.
    listener = open_port(webhook.port)
    async with Client(access) as client:
        tasks = {
            asyncio.create_task(run_operator(access, process)),
            asyncio.create_task(_serve(client, webhook, listener)),
        }
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for task in done:
            task.result()


async def _serve(client: Client, webhook: Webhook, listener: socket.socket) -> None:
    async def read() -> Mapping[str, Any]:
        return await client.get(VALIDATING_WEBHOOK, WEBHOOK_CONFIGURATION)

    async def patch(body: dict[str, Any]) -> bool:
        try:
            await client.merge(VALIDATING_WEBHOOK, WEBHOOK_CONFIGURATION, None, body)
        except Conflict:
            return False
        return True

    # What it does not know of pools it lets pass: the operator looks at each job again.
    pools = Cache(client, POOL, parse_pool, changed=lambda before, after: None, missing_ok=True)

    def allowed(job: TrainingJob, namespace: str) -> Sequence[Problem]:
        priority = priority_of(job.spec.priority, CLASSES, namespace)
        return access_rules(pools).refusals(job, priority, namespace)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pools.run())
        tasks.create_task(
            serve_webhook(
                webhook_application(lambda obj: parse_training_job(obj).job, allowed),
                listener=listener,
                host_name=webhook_host(webhook.namespace),
                replica=os.environ.get("POD_NAME") or socket.gethostname(),
                read=read,
                patch=patch,
            )
        )
