"""Mooring runs distributed training jobs and makes them fast.

    import mooring
    result = mooring.run(mooring.Job.from_file("job.yaml"))

In training code: `mooring.step(examples=512, loss=loss)`, `mooring.identity()` and
`mooring.budget()`; for frameworks `import mooring.tensorflow` and `import mooring.torch`. They are
imported on use, so that a training script pays nothing for the rest of the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.version import VERSION as __version__

if TYPE_CHECKING:
    from mooring.api import Job, RunResult, run
    from mooring.sdk import budget, identity, step

__all__ = ["Job", "RunResult", "__version__", "budget", "identity", "run", "step"]

_HOMES = {
    "Job": "mooring.api",
    "RunResult": "mooring.api",
    "run": "mooring.api",
    "budget": "mooring.sdk",
    "identity": "mooring.sdk",
    "step": "mooring.sdk",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mooring' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
