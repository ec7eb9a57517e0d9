"""A user's file to text, without ever blocking or reading more than is allowed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mooring.model.errors import BadInput, Problem

LARGEST_FILE_BYTES = 1024 * 1024
#: The path of a problem that concerns no single field.
WHOLE_FILE = "file"


def name_of(path: Path) -> str:
    """A file's name for messages; names that are not UTF-8 are escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def read_text(path: Path, accepted: str = "a readable YAML file") -> str:
    """The text of a small regular file. Raises BadInput for anything else; never blocks."""
    source = name_of(path)
    try:
        # O_NONBLOCK: opening a named pipe would otherwise wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise BadInput.at(source, WHOLE_FILE, "no such file", accepted) from None
    except PermissionError:
        raise BadInput.at(source, WHOLE_FILE, "no permission to read it", accepted) from None
    except (OSError, ValueError) as error:
        raise BadInput.at(source, WHOLE_FILE, _reason(error), accepted) from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise BadInput.at(source, WHOLE_FILE, kind, accepted)
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise BadInput.at(source, WHOLE_FILE, _reason(error), accepted) from None
    finally:
        os.close(handle)
    check_size(len(content), source)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"bytes that are not UTF-8, at offset {error.start}"
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(source, [Problem(WHOLE_FILE, found, "UTF-8 text", line)]) from None


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def check_size(size_bytes: int, source: str) -> None:
    if size_bytes > LARGEST_FILE_BYTES:
        accepted = "at most 1 MiB"
        raise BadInput.at(source, WHOLE_FILE, "more than 1 MiB of text", accepted)
