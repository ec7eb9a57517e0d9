"""Starting as the main process of a pod: the contract comes in a variable, the rest is unpacked.

The kubelet may restart the container in place, with the same contract: which attempt this is, is
counted in the pod's own folder, which outlives the container.
"""

from __future__ import annotations

import json
import os
import sys

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "MOORING_CONTRACT"
_RSH = '#!/bin/sh\nexec "%s" "%s" rsh "$@"\n'


def read_document() -> dict[str, Any]:
    """The contract as a JSON object, with this attempt's number; the variable is used up."""
    raw = os.environ.pop(VARIABLE, None)
    if raw is None:
        raise LaunchError("%s is not set: this command runs in pods only" % VARIABLE)
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise LaunchError("%s: not JSON: %s" % (VARIABLE, error)) from error
    if not isinstance(document, dict):
        raise LaunchError("%s: not a JSON object" % VARIABLE)
    _unpack_variables(document)
    home = os.path.dirname(str(document.get("sample_path") or "")) or "."
    document["attempt"] = int(document.get("attempt") or 0) + _restarts(home)
    agent = document.get("agent")
    if isinstance(agent, dict) and "token_env" in agent:
        agent["token"] = os.environ.get(str(agent["token_env"]), "")
    meeting = document.get("meeting")
    if isinstance(meeting, dict) and "token_env" in meeting:
        # The program has no use for it.
        meeting["token"] = os.environ.pop(str(meeting["token_env"]), "")
    return document


def unpack(document: dict[str, Any]) -> None:
    """Write the framework's files and the job's own; point the contract at where they are."""
    folder = str(document.get("files_dir") or "")
    files = document.get("files")
    try:
        if folder:
            os.makedirs(folder, exist_ok=True)
            for name, text in (files or {}).items():
                with open(os.path.join(folder, os.path.basename(name)), "w", encoding="utf-8") as f:
                    f.write(text)
            _install_rsh(folder)
        archive = document.get("archive")
        work = ""
        if archive:
            work = os.path.join(os.path.dirname(folder) or ".", "work")
            _extract(str(archive), work)
    except OSError as error:
        raise LaunchError("cannot unpack the job: %s" % error) from error
    cwd = str(document.get("cwd") or "")
    document["cwd"] = os.path.join(work, cwd) if work else (cwd or os.getcwd())


def _unpack_variables(document: dict[str, Any]) -> None:
    """Long values come compressed: a pod carries the names of all its peers."""
    import base64
    import zlib

    packed, env = document.get("packed_env") or {}, document.setdefault("env", {})
    if not isinstance(packed, dict) or not isinstance(env, dict):
        raise LaunchError("contract: env and packed_env: accepted: an object")
    for name, text in packed.items():
        try:
            env[name] = zlib.decompress(base64.b64decode(text)).decode("utf-8")
        except (ValueError, TypeError, zlib.error) as error:
            raise LaunchError("contract: packed_env.%s: %s" % (name, error)) from error


def _restarts(home: str) -> int:
    """How often a container of this pod was started before this one."""
    path = os.path.join(home, "starts")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            before = os.fstat(fd).st_size
            os.write(fd, b".")
        finally:
            os.close(fd)
    except OSError as error:
        raise LaunchError("%s: %s" % (path, error.strerror)) from error
    return before


def _install_rsh(folder: str) -> None:
    """mpirun and its daemons look for their remote shell by name."""
    programs = os.path.join(folder, "bin")
    os.makedirs(programs, exist_ok=True)
    path = os.path.join(programs, "moor-rsh")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_RSH % (sys.executable, os.path.abspath(sys.argv[0])))
    os.chmod(path, 0o755)
    os.environ["PATH"] = programs + os.pathsep + os.environ.get("PATH", os.defpath)


def _extract(archive: str, target: str) -> None:
    """Plain files and folders alone: whoever wrote the archive gets no other place to write to."""
    import tarfile

    os.makedirs(target, exist_ok=True)
    try:
        with tarfile.open(archive, "r:gz") as packed:
            for item in packed:
                name = os.path.normpath(item.name)
                if name.startswith(("/", "..")) or not (item.isfile() or item.isdir()):
                    raise LaunchError("%s: %r may not be unpacked" % (archive, item.name))
                path = os.path.join(target, name)
                if item.isdir():
                    os.makedirs(path, exist_ok=True)
                    continue
                os.makedirs(os.path.dirname(path), exist_ok=True)
                source = packed.extractfile(item)
                assert source is not None
                with open(path, "wb") as file:
                    file.write(source.read())
                os.chmod(path, 0o755 if item.mode & 0o100 else 0o644)
    except (tarfile.TarError, EOFError) as error:
        raise LaunchError("%s: %s" % (archive, error)) from error
