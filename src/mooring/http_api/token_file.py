"""The token that lets a program in over TCP: a file that only its owner can read."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from mooring.model.errors import BadInput, RunFailed
from mooring.record.private import FILE_MODE

_TOKEN = re.compile(rb"[\x21-\x7e]{32,512}")
_MOST_BYTES = 1024
_SOURCE = "moor serve --listen"


def read_or_make_token(path: Path) -> bytes:
    """Raises BadInput for a file that others can read or that holds no token, and RunFailed."""
    try:
        with suppress(FileExistsError):
            _make(path)
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RunFailed(f"cannot keep a token in {path}: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or mode & 0o077:
            what = f"mode {mode:04o}, owner {found.st_uid}"
            accepted = f"a file of yours with mode {FILE_MODE:04o}, or none: a new one is made"
            raise BadInput.at(_SOURCE, str(path), what, accepted)
        token = file.read(_MOST_BYTES).strip()
    if not _TOKEN.fullmatch(token):
        accepted = "32 to 512 letters, digits or signs on one line, or no file: a new one is made"
        raise BadInput.at(_SOURCE, str(path), "no token", accepted)
    return token


def _make(path: Path) -> None:
    """Raises FileExistsError. Whole or not at all: a service may be killed at any moment."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(file.fileno(), FILE_MODE)
            file.write(secrets.token_urlsafe(32).encode() + b"\n")
        path.hardlink_to(part)
    finally:
        part.unlink()
