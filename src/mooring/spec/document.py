"""YAML text to plain data, safely, remembering the line of every value.

The parser's events are consumed one by one, so that the bounds on depth and size hold before
anything large is built: a billion laughs is refused at the alias that would go too far. Only
plain data comes out; tags of any other kind are problems, as are duplicate and non-text keys,
which YAML readers otherwise accept in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from mooring.model.errors import BadInput, Problem
from mooring.spec.base import printable, shorten
from mooring.spec.source import WHOLE_FILE, check_size

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml: the same events, slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MOST_NODES = 20_000
DEEPEST = 100
_LONGEST_NUMBER_CHARS = 64
_TAG = "tag:yaml.org,2002:"

FieldPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """Plain data, where each value stands, and what is wrong with the YAML but not fatal."""

    data: Any
    lines: dict[FieldPath, int]
    problems: list[tuple[FieldPath, Problem]] = field(default_factory=list)

    def line_of(self, path: FieldPath) -> int | None:
        """The line of a value, or of the nearest thing around it that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def format_path(path: FieldPath) -> str:
    """`spec.roles.worker.command[0]`; the whole file for the empty path."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part and part.isprintable() and not any(char in part for char in " .[]\"'=")
            shown = shorten(part) if plain else repr(shorten(part))
            text += f".{shown}" if text else shown
    return text or WHOLE_FILE


def parse_document(text: str, source: str) -> Document:
    """The single YAML document in `text`. Raises BadInput if it cannot be read at all."""
    return _parse(text, source, several=False)[0]


def parse_documents(text: str, source: str) -> list[Document]:
    """The YAML documents in `text`, at least one. Raises BadInput if it cannot be read at all.

    Empty documents (`---` twice, a comment alone) are left out, as `kubectl` does.
    """
    return _parse(text, source, several=True)


def _parse(text: str, source: str, *, several: bool) -> list[Document]:
    try:
        check_size(len(text.encode("utf-8")), source)
    except UnicodeEncodeError:
        accepted = "Unicode text without lone surrogates"
        raise BadInput.at(source, WHOLE_FILE, "a lone surrogate", accepted) from None
    try:
        roots = _compose(text, several)
    except _Unusable as error:
        problem = Problem(WHOLE_FILE, error.found, error.accepted, error.line)
        raise BadInput(source, [problem]) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        line = mark.line + 1 if mark is not None else None
        problem = Problem(WHOLE_FILE, f"bad YAML ({printable(str(what))})", "valid YAML", line)
        raise BadInput(source, [problem]) from None
    if several:
        roots = [root for root in roots if root.tag != _TAG + "null"]
    if not roots:
        raise BadInput.at(source, WHOLE_FILE, "nothing", "one YAML document")
    return [_build(root) for root in roots]


def _build(root: _Node) -> Document:
    document = Document(None, {})
    data = _Builder(document).build(root, (), root.line)
    return Document(data, document.lines, document.problems)


class _Unusable(Exception):
    def __init__(self, found: str, accepted: str, line: int) -> None:
        super().__init__(found)
        self.found, self.accepted, self.line = found, accepted, line


@dataclass(slots=True)
class _Node:
    """`kind` is scalar, sequence or mapping; a mapping's items are keys and values in turn."""

    kind: str
    tag: str
    line: int
    text: str = ""
    items: list[_Node] = field(default_factory=list)
    size: int = 1
    height: int = 1
    open: bool = True


def _compose(text: str, several: bool) -> list[_Node]:
    loader = _Loader(text)
    try:
        return _compose_events(loader, several)
    finally:
        loader.dispose()


def _compose_events(loader: Any, several: bool) -> list[_Node]:
    roots: list[_Node] = []
    stack: list[_Node] = []
    anchors: dict[str, _Node] = {}
    total = documents = 0
    while loader.check_event():
        event = loader.get_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            anchors = {}
            if documents > 1 and not several:
                raise _Unusable("a second YAML document", "one document a file", line)
            continue
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            node = stack.pop()
            node.open = False
        elif isinstance(event, yaml.AliasEvent):
            node = _aliased(anchors, event.anchor, line)
            total += node.size
        elif isinstance(event, yaml.NodeEvent):
            node = _opened(loader, event, line)
            total += 1
            if event.anchor is not None:
                anchors[event.anchor] = node
            if node.open:
                stack.append(node)
        else:
            continue
        if total > MOST_NODES:
            raise _Unusable(
                f"more than {MOST_NODES} values, aliases expanded", f"at most {MOST_NODES}", line
            )
        if len(stack) + (0 if node.open else node.height) > DEEPEST:
            raise _Unusable(f"more than {DEEPEST} levels of nesting", f"at most {DEEPEST}", line)
        if node.open:
            continue
        if stack:
            parent = stack[-1]
            parent.items.append(node)
            parent.size += node.size
            parent.height = max(parent.height, node.height + 1)
        else:
            roots.append(node)
    return roots


def _aliased(anchors: dict[str, _Node], anchor: str | None, line: int) -> _Node:
    name = anchor or ""
    found = anchors.get(name)
    if found is None:
        raise _Unusable(
            f"an alias '*{printable(name)}' without its anchor", "a defined anchor", line
        )
    if found.open:
        raise _Unusable(f"an alias '*{printable(name)}' inside itself", "no recursion", line)
    return found


def _opened(loader: Any, event: Any, line: int) -> _Node:
    if isinstance(event, yaml.ScalarEvent):
        tag = event.tag
        if tag is None or tag == "!":
            tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        return _Node("scalar", tag, line, event.value, open=False)
    kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
    default = _TAG + ("map" if kind == "mapping" else "seq")
    return _Node(kind, default if event.tag in (None, "!") else event.tag, line)


class _Builder:
    """Plain data from composed nodes. Recursive: the depth is bounded by then."""

    def __init__(self, document: Document) -> None:
        self._lines = document.lines
        self._problems = document.problems
        self._numbers = SafeConstructor()

    def build(self, node: _Node, path: FieldPath, line: int) -> Any:
        self._lines[path] = line
        if node.kind == "scalar":
            return self._scalar(node, path)
        expected = _TAG + ("map" if node.kind == "mapping" else "seq")
        if node.tag != expected:
            self._problem(path, f"the tag {printable(node.tag)}", "a plain value", node.line)
        if node.kind == "sequence":
            return [
                self.build(item, (*path, index), item.line) for index, item in enumerate(node.items)
            ]
        result: dict[str, Any] = {}
        for key, value, from_merge in self._entries(node, path):
            if from_merge and key.text in result:
                continue
            if key.text in result:
                found = f"'{printable(key.text)}' a second time"
                self._problem((*path, key.text), found, "each field once", key.line)
            result[key.text] = self.build(value, (*path, key.text), key.line)
        return result

    def _entries(self, node: _Node, path: FieldPath) -> Iterator[tuple[_Node, _Node, bool]]:
        """Keys with values; what `<<` brings in comes last, so that it never overrides."""
        merged: list[_Node] = []
        for key, value in zip(node.items[::2], node.items[1::2], strict=True):
            if key.kind == "scalar" and key.tag == _TAG + "merge":
                sources = value.items if value.kind == "sequence" else [value]
                if all(source.kind == "mapping" for source in sources):
                    merged.extend(sources)
                else:
                    self._problem((*path, "<<"), "no mapping", "a mapping to merge", key.line)
            elif key.kind != "scalar" or key.tag not in (_TAG + "str", _TAG + "value"):
                shown = f"the key {printable(key.text)}" if key.text else f"a {key.kind} as a key"
                self._problem(
                    (*path, key.text or "?"),
                    f"{shown}, not a text",
                    "a text; put it in quotes",
                    key.line,
                )
            else:
                yield key, value, False
        for source in merged:
            for key, value, _ in self._entries(source, path):
                yield key, value, True

    def _scalar(self, node: _Node, path: FieldPath) -> Any:
        kind = node.tag.removeprefix(_TAG)
        # Base-60 numbers (`1:30`) and dates are old YAML that nobody means: they stay text.
        if kind in ("str", "timestamp", "value", "merge") or (
            kind in ("int", "float") and ":" in node.text
        ):
            return node.text
        if kind == "null":
            return None
        if kind in ("int", "float") and len(node.text) > _LONGEST_NUMBER_CHARS:
            found = f"a number of {len(node.text)} characters"
            self._problem(path, found, f"at most {_LONGEST_NUMBER_CHARS}", node.line)
            return node.text
        scalar = yaml.ScalarNode(node.tag, node.text)
        try:
            if kind == "int":
                return self._numbers.construct_yaml_int(scalar)
            if kind == "float":
                return self._numbers.construct_yaml_float(scalar)
            if kind == "bool":
                return self._numbers.construct_yaml_bool(scalar)
        except (ValueError, KeyError, IndexError, OverflowError, ConstructorError):
            self._problem(path, f"{shorten(node.text)!r} as {kind}", f"a valid {kind}", node.line)
            return node.text
        self._problem(path, f"the tag {printable(node.tag)}", "a plain value", node.line)
        return node.text

    def _problem(self, path: FieldPath, found: str, accepted: str, line: int) -> None:
        self._problems.append((path, Problem(format_path(path), found, accepted, line)))
