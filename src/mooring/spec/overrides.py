"""`--set roles.worker.replicas=4`: values given beside the file, put into it before validation.

A path counts from `spec` unless it begins with `spec` or `metadata`; the value is YAML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mooring.model.errors import BadInput, Problem
from mooring.spec.base import describe, printable, shorten
from mooring.spec.document import FieldPath, format_path, parse_document

_PART = re.compile(r"""\[(\d{1,6})\]|"([^"]+)"|'([^']+)'|([^.=\[\]"']+)""")
_ACCEPTED = "PATH=VALUE, such as roles.worker.replicas=4"


@dataclass(frozen=True)
class Override:
    """One `--set`; `raw` is the value's text, used where a text is wanted (`env.STEPS=100`)."""

    text: str
    path: FieldPath
    value: Any
    raw: str

    @property
    def label(self) -> str:
        return f"--set {printable(self.text)}"


def parse_overrides(texts: Sequence[str], source: str) -> list[Override]:
    """Raises BadInput with every override that cannot be read."""
    overrides, problems = [], []
    for text in texts:
        try:
            overrides.append(_parse(text, source))
        except BadInput as error:
            label = f"--set {printable(text)}"
            problems += [Problem(label, one.found, one.accepted) for one in error.problems]
    if problems:
        raise BadInput(source, problems)
    return overrides


def _parse(text: str, source: str) -> Override:
    path, end = _parse_path(text)
    if not path or end >= len(text) or text[end] != "=":
        raise BadInput.at(source, "", f"{shorten(text)!r}", _ACCEPTED)
    if path[0] not in ("spec", "metadata"):
        path = ("spec", *path)
    if len(path) < 2:
        raise BadInput.at(source, "", f"the whole of '{path[0]}'", "a field inside it")
    raw = text[end + 1 :]
    if not raw.strip():
        return Override(text, path, None, raw)
    document = parse_document(raw, source)
    if document.problems:
        raise BadInput(source, [problem for _, problem in document.problems])
    return Override(text, path, document.data, raw)


def _parse_path(text: str) -> tuple[FieldPath, int]:
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            break
        index, double, single, plain = match.groups()
        parts.append(int(index) if index is not None else double or single or plain)
        position = match.end()
        if text[position : position + 1] == ".":
            position += 1
        elif text[position : position + 1] != "[":
            break
    return tuple(parts), position


def apply(data: dict[str, Any], override: Override, value: Any) -> Problem | None:
    """Put `value` where the override points, making mappings on the way that are not there."""
    here: Any = data
    last = len(override.path) - 1
    for depth, part in enumerate(override.path):
        if isinstance(here, list):
            index = part if isinstance(part, int) else int(part) if part.isdecimal() else -1
            if not 0 <= index < len(here):
                accepted = f"an index below {len(here)}" if here else "another path: it is empty"
                return _problem(override, depth, f"no entry '{part}' in a list", accepted)
            if depth == last:
                here[index] = value
                return None
            here = here[index]
        elif isinstance(here, dict):
            name = str(part)
            if depth == last:
                here[name] = value
                return None
            if here.get(name) is None:
                here[name] = {}
            here = here[name]
        else:
            return _problem(override, depth, describe(here), "a mapping or a list")
    return None


def _problem(override: Override, depth: int, found: str, accepted: str) -> Problem:
    return Problem(f"{format_path(override.path[:depth])} ({override.label})", found, accepted)
