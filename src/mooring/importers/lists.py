"""`kind: List`, as `kubectl get -o yaml` prints several objects: its items as documents."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.model.errors import BadInput
from mooring.spec.base import describe
from mooring.spec.document import Document

#: A list of one kind is called by it: TFJobList.
_SUFFIX = "List"
#: What a list says of itself, which is nothing about its items.
_OWN = ("apiVersion", "kind", "metadata", "items")


def unlisted(document: Document, source: str) -> Iterator[Document]:
    """The document itself, or those that it lists, also lists in lists."""
    data = document.data
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or not kind.endswith(_SUFFIX):
        yield document
        return
    for key in data:
        if key not in _OWN:
            raise BadInput.at(source, str(key), "a field that no list has", ", ".join(_OWN))
    items = data.get("items")
    if not isinstance(items, list) or not items:
        raise BadInput.at(source, "items", describe(items), "a list of objects")
    for index in range(len(items)):
        yield from unlisted(_item(document, index, kind), source)


def _item(document: Document, index: int, kind: str) -> Document:
    """Lines stay those of the file; paths begin at the item."""
    at = ("items", index)
    data = document.data["items"][index]
    if isinstance(data, dict) and "kind" not in data and kind != _SUFFIX:
        # A server that lists one kind says it once.
        head = {"apiVersion": document.data.get("apiVersion"), "kind": kind.removesuffix(_SUFFIX)}
        data = {**head, **data}
    lines = {path[2:]: line for path, line in document.lines.items() if path[:2] == at}
    problems = [(path[2:], problem) for path, problem in document.problems if path[:2] == at]
    return Document(data, lines, problems)
