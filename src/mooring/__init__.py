"""Mooring runs distributed training jobs and makes them fast.

    import mooring
    result = mooring.run("job.yaml", on_progress=print)

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
    from mooring.model.errors import BadInput, MooringError, NotInstalled, RunFailed
    from mooring.sdk import budget, identity, step

__all__ = [
    "BadInput",
    "Job",
    "MooringError",
    "NotInstalled",
    "Progress",
    "Refused",
    "Run",
    "RunFailed",
    "RunResult",
    "__version__",
    "budget",
    "identity",
    "run",
    "start",
    "step",
]

_HOMES = {
    "BadInput": "mooring.model.errors",
    "Job": "mooring.api",
    "MooringError": "mooring.model.errors",
    "NotInstalled": "mooring.model.errors",
    "Progress": "mooring.api",
    "Refused": "mooring.app",
    "Run": "mooring.api",
    "RunFailed": "mooring.model.errors",
    "RunResult": "mooring.api",
    "budget": "mooring.sdk",
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
