"""The webhook as a replica serves it, by URL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kube.cluster.client import ApiError, Client
from kube.cluster.control_plane import ControlPlane
from kube.install.objects import refused_by_webhook
from mooring.backends.kubernetes.jobs.training_job import parse_training_job
from mooring.install.names import WEBHOOK_CONFIGURATION, WEBHOOK_PATH
from mooring.operator.serving import open_port, serve_webhook
from mooring.operator.webhook import webhook_application
from support.waiting import until

REGISTRATION = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/" + WEBHOOK_CONFIGURATION
)


@contextmanager
def serving(plane: ControlPlane, operator: Client) -> Iterator[None]:
    before = plane.admin.get(REGISTRATION)["webhooks"]
    listener = open_port(0)
    url = f"https://localhost:{listener.getsockname()[1]}{WEBHOOK_PATH}"
    by_url = [{**one, "clientConfig": {"url": url}} for one in before]
    plane.admin.patch(REGISTRATION, {"webhooks": by_url})

    async def read() -> Mapping[str, Any]:
        return await asyncio.to_thread(operator.get, REGISTRATION)

    async def patch(body: dict[str, Any]) -> bool:
        try:
            await asyncio.to_thread(operator.patch, REGISTRATION, body)
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    loop = asyncio.new_event_loop()
    task = loop.create_task(
        serve_webhook(
            webhook_application(lambda obj: parse_training_job(obj).job),
            listener=listener,
            host_name="localhost",
            replica="test",
            read=read,
            patch=patch,
        )
    )

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: refused_by_webhook(plane), "the API server trusts the webhook")
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()
        plane.admin.patch(REGISTRATION, {"webhooks": before})
