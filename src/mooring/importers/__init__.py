"""Jobs of other operators become jobs of Mooring: `moor import`.

`tracked` reads a manifest so that no field can be lost, `pods` knows pod templates, one module a
kind knows the rest, `draft` writes the job and has it checked by the real loader. The promise is
structural: every leaf of the input ends as mapped, dropped with a reason, or an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.importers import (  # noqa: F401  they register what they read
    jobs,
    mpijob,
    pytorchjob,
    ray,
    shimmed,
    spark,
    tfjob,
    trainjob,
    volcano,
)
from mooring.importers.kinds import KINDS, ManifestKind, Options
from mooring.importers.lists import unlisted
from mooring.importers.report import FORMATS, render
from mooring.importers.result import DocumentAccount, Imported
from mooring.importers.tracked import Drop, LeafLedger, leaves
from mooring.model.errors import BadInput
from mooring.spec.base import describe, one_of
from mooring.spec.document import Document, parse_documents

__all__ = [
    "FORMATS",
    "KINDS",
    "DocumentAccount",
    "Imported",
    "import_manifests",
    "problems_of",
    "render",
]


def import_manifests(
    texts: Sequence[tuple[str, str]],
    *,
    drops: Sequence[str] = (),
    skip: Sequence[str] = (),
    entrypoint: Sequence[str] = (),
    name: str | None = None,
) -> list[Imported]:
    """The jobs in these (source, text) manifests, each with what became of its fields.

    Raises BadInput for what is no manifest at all; a manifest that cannot be mapped comes back
    without a text, with its problems in its accounts (`problems_of`).
    """
    documents = [
        (source, document)
        for source, text in texts
        for parsed in parse_documents(text, source)
        for document in unlisted(parsed, source)
    ]
    wanted = [Drop(text) for text in drops]
    _check_drops(wanted, [document for _, document in documents])
    others = {
        (_text(document, "kind"), _name(document)): document
        for _, document in documents
        if _text(document, "kind") in trainjob.RUNTIMES
    }
    options = Options(tuple(entrypoint), name, others, tuple(wanted))
    results = []
    for number, (source, document) in enumerate(documents):
        kind = _text(document, "kind")
        if kind in skip or kind in trainjob.RUNTIMES:
            continue
        shown = source if len(documents) == 1 else f"{source}#{number + 1}"
        results.append(_import_one(shown, document, options))
    if not results:
        found = ", ".join(_text(document, "kind") for _, document in documents)
        raise BadInput.at(texts[0][0], "kind", found or "nothing", one_of(None, KINDS))
    return results


def problems_of(results: Sequence[Imported]) -> list[BadInput]:
    """One error for each document that has problems."""
    return [
        BadInput(account.source, account.problems)
        for one in results
        for account in one.accounts
        if account.problems
    ]


def _import_one(source: str, document: Document, options: Options) -> Imported:
    kind = _kind_of(source, document)
    ledger = LeafLedger(document, options.drops)
    draft = kind.read(ledger.root, options)
    finished = draft.finish(source)
    accounts = []
    for each in draft.ledgers:
        entries, problems = each.finish()
        shown = source if each is ledger else f"{source} ({each.root['kind'].value})"
        accounts.append(
            DocumentAccount(
                shown,
                str(each.root["kind"].value),
                tuple(entries),
                tuple(problems),
                tuple(each.remarks),
                each,
            )
        )
    name = str(draft.get(("metadata", "name")))
    if finished is None or any(account.problems for account in accounts):
        return Imported(name, None, None, tuple(accounts))
    return Imported(name, *finished, tuple(accounts))


def _kind_of(source: str, document: Document) -> ManifestKind:
    if not isinstance(document.data, dict):
        raise BadInput.at(source, "kind", describe(document.data), one_of(None, KINDS))
    kind, version = document.data.get("kind"), document.data.get("apiVersion")
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        accepted = one_of(kind, KINDS) + " (to leave such documents out: --skip KIND)"
        raise BadInput.at(source, "kind", describe(kind), accepted)
    for one in known:
        if version in one.versions:
            return one
    versions = [version for one in known for version in one.versions]
    raise BadInput.at(source, "apiVersion", describe(version), one_of(version, versions))


def _check_drops(drops: Sequence[Drop], documents: Sequence[Document]) -> None:
    for drop in drops:
        if not any(
            drop.covers(path) for document in documents for path, _ in leaves(document.data)
        ):
            raise BadInput.at(
                "--drop", drop.text, "no such field", "a field's path as the report prints it"
            )


def _text(document: Document, key: str) -> str:
    return str(document.data.get(key)) if isinstance(document.data, dict) else ""


def _name(document: Document) -> str:
    metadata = document.data.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else ""
