"""Where the service listens, and addresses of Unix sockets in deep folders: the kernel takes about
a hundred bytes. Imports little: every `moor run` asks whether there is a service.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mooring.model.errors import RunFailed
from mooring.record.state_home import state_home

_LONGEST = 107 if sys.platform.startswith("linux") else 103


def service_socket() -> Path:
    """That of this user's state home; nobody need listen there."""
    return state_home() / "queue" / "service.sock"


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """An address of the socket at `path`, to bind or to connect to meanwhile."""
    text = str(path)
    if len(os.fsencode(text)) <= _LONGEST:
        yield text
        return
    if not sys.platform.startswith("linux"):
        raise RunFailed(f"{text} is too long for a socket: set MOORING_HOME to a shorter folder")
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
