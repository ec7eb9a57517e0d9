"""start.json: what a run was started with beside its job, for `moor rerun` and for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from mooring.record.private import write_whole
from mooring.record.runs import RunRecord

_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Start:
    """Where and with what a run was started. Values of variables only where they are no secret.

    folder: what the job's paths are relative to; python: the interpreter that `python` meant;
    hashes: the programs' own files; names: variables that were set and whose values are not kept.
    """

    folder: str
    nic_mbps: int | None = None
    python: str = ""
    python_version: str = ""
    python_origin: str = ""
    hashes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    env_files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def python_said(self) -> str:
        return f"{self.python} {self.python_version}".strip()


def write_start(run: RunRecord, start: Start) -> None:
    # `asdict` would copy the mappings, which views of mappings do not allow.
    fields = {name: getattr(start, name) for name in Start.__dataclass_fields__}
    document = {**fields, "hashes": dict(start.hashes), "values": dict(start.values)}
    write_whole(run.start_file, json.dumps(document, indent=1))


def read_start(run: RunRecord) -> Start | None:
    """None of a run that an earlier version of Mooring made, or whose record cannot be read."""
    try:
        with run.start_file.open("rb") as file:
            fields = json.loads(file.read(_MOST_BYTES))
        known = {name: fields[name] for name in Start.__dataclass_fields__ if name in fields}
        for name, value in known.items():
            if not _fits(name, value):
                return None
        tuples = {name: tuple(known.get(name, ())) for name in ("env_files", "names")}
        return Start(**{**known, **tuples})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _fits(name: str, value: object) -> bool:
    if name in ("env_files", "names"):
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if name in ("hashes", "values"):
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    if name == "nic_mbps":
        return value is None or type(value) is int
    return isinstance(value, str)


def changes_since(start: Start, environ: Mapping[str, str], *, with_programs: bool) -> list[str]:
    """What is different now, a sentence each. `environ` is what members would inherit now.

    with_programs: also whether the programs' own files have changed.
    """
    changes = []
    for path, before in start.hashes.items() if with_programs else ():
        now = _hash(Path(path))
        if now != before:
            changes.append(f"{path} {'has changed' if now else 'is gone'}")
    gone = [name for name in (*start.names, *start.values) if name not in environ]
    if gone:
        changes.append(f"not set any more: {', '.join(sorted(gone))}")
    for name, before in start.values.items():
        if name in environ and environ[name] != before:
            changes.append(f"{name} was {before}, is {environ[name]}")
    return changes


def _hash(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
