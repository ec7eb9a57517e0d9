"""Folders and files that nobody but their owner reads, whatever the umask of the caller is."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def is_full(error: BaseException | None) -> bool:
    """Whether it says that the disk, or what its owner may use of it, is full."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return isinstance(error, OSError) and error.errno in full


def make_folder(path: Path) -> Path:
    """A folder for its owner alone; one that exists becomes one, its parents stay as they are."""
    path.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    path.chmod(FOLDER_MODE)
    return path


def open_file(path: Path, *, append: bool = False) -> IO[bytes]:
    """Opened to write: empty, or to append to."""
    start = os.O_APPEND if append else os.O_TRUNC
    return os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | start, FILE_MODE),
        "ab" if append else "wb",
    )


def write_file(path: Path, text: str) -> None:
    with open_file(path) as file:
        file.write(text.encode())


def write_whole(path: Path, text: str) -> None:
    """Replace a file so that a reader sees the old or the new text, never a part."""
    part = path.with_name(f".{path.name}.part")
    try:
        write_file(part, text)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_for_user(path: Path, text: str) -> None:
    """The same for a file that the user asked for: its rights stay, or are as the umask says."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    if path.exists():
        part.chmod(path.stat().st_mode & 0o777)
    part.replace(path)
