"""A job as the service takes it: with the submitter's variables, looked at as `moor run` would."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring import frameworks
from mooring.backends.local.preparing import Given, prepare
from mooring.model.member import Gang
from mooring.spec import TrainingJob


@dataclass(frozen=True)
class SubmitRequest:
    """The body of `POST /jobs`, and what the user should know."""

    body: dict[str, Any]
    notes: tuple[str, ...]


def request_of(job: TrainingJob, folder: Path, source: str, given: Given) -> SubmitRequest:
    """Raises BadInput or NotInstalled."""
    gang = frameworks.expand(job, source)
    prepared = prepare(job, gang, folder, given, source)
    # The only way to know it is to set it.
    umask = os.umask(0o022)
    os.umask(umask)
    body = {
        "job": job.to_dict(),
        "folder": str(folder),
        "source": source,
        "environment": {name: text for name, text in os.environ.items() if _is_text(text)},
        "given": dict(given.variables),
        "env_files": list(given.env_files),
        "check": given.check,
        "umask": umask,
    }
    return SubmitRequest(body, (*prepared.programs.notes, *_notes(gang, source)))


def _notes(gang: Gang, source: str) -> Iterator[str]:
    if not any(
        member.resources.cpu_millis or member.resources.gpu_millis for member in gang.members
    ):
        said = "names neither cpu nor gpu: the queue does not hold it back for want of them"
        yield f"{source} {said}"


def _is_text(text: str) -> bool:
    return text.isascii() or not any(0xD800 <= ord(char) < 0xE000 for char in text)
