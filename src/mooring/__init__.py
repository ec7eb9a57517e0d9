"""Mooring runs distributed training jobs and makes them fast.

    import mooring
    result = mooring.run("job.yaml", on_progress=print)

    queue = mooring.connect()
    run = queue.submit("job.yaml")

In training code: `mooring.step(examples=512, loss=loss)`, `mooring.identity()` and
`mooring.budget()`; for frameworks `import mooring.tensorflow` and `import mooring.torch`. They are
imported on use, so that a training script pays nothing for the rest of the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.version import VERSION as __version__

if TYPE_CHECKING:
    from mooring.api import Job, Progress, Run, RunResult, run, start
    from mooring.app import Refused
    from mooring.backends.local.queue.client import NoService, NotFound
    from mooring.connecting.asynchronous import (
        AsyncConnectedRun,
        AsyncConnection,
        connect_async,
    )
    from mooring.connecting.plain import ConnectedRun, Connection, connect
    from mooring.connecting.values import JobResult, JobStatus, Step
    from mooring.model.errors import BadInput, MooringError, NotInstalled, RunFailed
    from mooring.sdk import budget, identity, step

__all__ = [
    "AsyncConnectedRun",
    "AsyncConnection",
    "BadInput",
    "ConnectedRun",
    "Connection",
    "Job",
    "JobResult",
    "JobStatus",
    "MooringError",
    "NoService",
    "NotFound",
    "NotInstalled",
    "Progress",
    "Refused",
    "Run",
    "RunFailed",
    "RunResult",
    "Step",
    "__version__",
    "budget",
    "connect",
    "connect_async",
    "identity",
    "run",
    "start",
    "step",
]

_HOMES = {
    "AsyncConnectedRun": "mooring.connecting.asynchronous",
    "AsyncConnection": "mooring.connecting.asynchronous",
    "BadInput": "mooring.model.errors",
    "ConnectedRun": "mooring.connecting.plain",
    "Connection": "mooring.connecting.plain",
    "Job": "mooring.api",
    "JobResult": "mooring.connecting.values",
    "JobStatus": "mooring.connecting.values",
    "MooringError": "mooring.model.errors",
    "NoService": "mooring.backends.local.queue.client",
    "NotFound": "mooring.backends.local.queue.client",
    "NotInstalled": "mooring.model.errors",
    "Progress": "mooring.api",
    "Refused": "mooring.app",
    "Run": "mooring.api",
    "RunFailed": "mooring.model.errors",
    "RunResult": "mooring.api",
    "Step": "mooring.connecting.values",
    "budget": "mooring.sdk",
    "connect": "mooring.connecting.plain",
    "connect_async": "mooring.connecting.asynchronous",
    "identity": "mooring.sdk",
    "run": "mooring.api",
    "start": "mooring.api",
    "step": "mooring.sdk",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mooring' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
