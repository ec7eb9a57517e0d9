"""Changes to a job file that keep everything else as it is: comments, order, quotes, blanks.

The parser's marks say where each value stands in the text; only those characters are replaced,
and a new key is written beside its siblings in their style. The result is read back: unless it
says exactly what the change means, the file is refused rather than damaged (anchors that several
places share, merge keys, several documents).
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from mooring.model.errors import BadInput
from mooring.record.journal import JsonValue
from mooring.spec.base import describe, printable
from mooring.spec.document import FieldPath, format_path, parse_document
from mooring.spec.source import WHOLE_FILE

_MISSING = object()


@dataclass(frozen=True)
class Change:
    """A field of a job file and its new value; `remove` takes it out instead."""

    path: FieldPath
    value: JsonValue = None
    remove: bool = False

    def document(self) -> dict[str, JsonValue]:
        return {"path": list(self.path), "value": self.value, "remove": self.remove}

    def __str__(self) -> str:
        if self.remove:
            return f"remove {format_path(self.path)}"
        return f"{format_path(self.path)}: {_written(self.value)}"


def edit(text: str, changes: Sequence[Change], source: str) -> str:
    """The text with the changes in it. Raises BadInput if that cannot be done without damage."""
    wanted = copy.deepcopy(parse_document(text, source).data)
    for change in changes:
        if not _apply(wanted, change, source):
            continue
        text = _edit_one(text, change, source)
    if parse_document(text, source).data != wanted:
        where = ", ".join(format_path(change.path) for change in changes)
        raise BadInput.at(source, where, "a form that cannot be edited safely", "a change by hand")
    return text


def difference(old: str, new: str, name: str) -> str:
    """A unified diff; empty if nothing differs."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), name, name, n=2
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _apply(data: Any, change: Change, source: str) -> bool:
    """Carries the change out on plain data; False if there is nothing to do."""
    here = data
    for depth, part in enumerate(change.path):
        if not isinstance(here, dict):
            if change.remove:
                return False
            at = format_path(change.path[:depth])
            raise BadInput.at(source, at, describe(here), "a mapping")
        if depth == len(change.path) - 1:
            break
        if here.get(part) is None:
            if change.remove:
                return False
            here[part] = {}
        here = here[part]
    last = change.path[-1]
    if change.remove:
        return here.pop(last, _MISSING) is not _MISSING
    old = here.get(last, _MISSING)
    here[last] = change.value
    # `1` and `true` are equal to Python and not to YAML.
    return type(old) is not type(change.value) or old != change.value


def _edit_one(text: str, change: Change, source: str) -> str:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        # This loader knows where things stand, and takes a little less than the one that reads.
        found = f"YAML that cannot be edited ({printable(str(error).splitlines()[0])})"
        raise BadInput.at(source, WHOLE_FILE, found, "a change by hand") from None
    for depth, part in enumerate(change.path):
        if not isinstance(node, yaml.MappingNode):
            raise BadInput.at(source, WHOLE_FILE, "nothing", "a mapping")
        position = _position(node, part)
        last = depth == len(change.path) - 1
        if position is None:
            value: Any = change.value
            for outer in reversed(change.path[depth + 1 :]):
                value = {outer: value}
            return _insert(text, node, str(part), value)
        key, below = node.value[position]
        if last and change.remove:
            return _remove(text, node, position)
        if last or _is_empty(below):
            value = change.value
            for outer in reversed(change.path[depth + 1 :]):
                value = {outer: value}
            return _replace(text, key, below, value)
        node = below
    raise BadInput.at(source, WHOLE_FILE, "no field", "a path to one")


def _position(node: yaml.MappingNode, name: str | int) -> int | None:
    for position, (key, _) in enumerate(node.value):
        if isinstance(key, yaml.ScalarNode) and key.value == str(name):
            return position
    return None


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _replace(text: str, key: yaml.Node, value: yaml.Node, new: JsonValue) -> str:
    start, end = value.start_mark.index, value.end_mark.index
    if _is_empty(value) and start == end:
        # `key:` with nothing behind it: the value's mark may be anywhere further down.
        start = end = text.index(":", key.end_mark.index) + 1
        return f"{text[:start]} {_written(new)}{text[end:]}"
    # A block collection ends where the next token begins: leave the blanks and comments between.
    if not getattr(value, "flow_style", True):
        end = _last_end(value)
        start_of_value = text.rindex(":", 0, start) + 1
        return f"{text[:start_of_value]} {_written(new)}{text[end:]}"
    return text[:start] + _written(new) + text[end:]


def _insert(text: str, node: yaml.MappingNode, name: str, value: JsonValue) -> str:
    entry = f"{name}: {_written(value)}"
    if node.flow_style:
        end = node.end_mark.index - 1
        if not node.value:
            return f"{text[:end]}{entry}{text[end:]}"
        last = node.value[-1][1].end_mark.index
        return f"{text[:last]}, {entry}{text[last:]}"
    indent = " " * node.start_mark.column
    at = text.find("\n", _last_end(node))
    if at < 0:
        return f"{text}\n{indent}{entry}\n"
    return f"{text[:at]}\n{indent}{entry}{text[at:]}"


def _remove(text: str, node: yaml.MappingNode, position: int) -> str:
    key, value = node.value[position]
    if node.flow_style:
        if position + 1 < len(node.value):
            return (
                text[: key.start_mark.index] + text[node.value[position + 1][0].start_mark.index :]
            )
        before = node.value[position - 1][1].end_mark.index if position else key.start_mark.index
        return text[:before] + text[value.end_mark.index :]
    if len(node.value) == 1:
        # An emptied block would read as null.
        before = text[: key.start_mark.index]
        bare = before.rstrip()
        before = f"{bare} " if bare.endswith(":") else before
        return before + "{}" + text[_last_end(value) :]
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    end = text.find("\n", max(_last_end(value), key.end_mark.index))
    return text[:start] + (text[end + 1 :] if end >= 0 else "")


def _last_end(node: yaml.Node) -> int:
    """Where the last character of a node stands: block collections' own mark is further down."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        if isinstance(last, tuple):
            key, value = last
            return max(int(key.end_mark.index), _last_end(value))
        return _last_end(last)
    if _is_empty(node) and node.start_mark.index == node.end_mark.index:
        return -1
    return int(node.end_mark.index)


def _written(value: JsonValue) -> str:
    """A value on one line, as YAML."""
    if isinstance(value, str):
        dumped: str = yaml.safe_dump(value, width=1 << 20, allow_unicode=True).strip()
        return dumped.removesuffix("...").strip()
    if isinstance(value, dict | list):
        flow: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1 << 20)
        return flow.strip()
    return json.dumps(value)
