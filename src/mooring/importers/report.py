"""What became of each field, for people (text, Markdown) and programs (JSON)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from mooring.importers.result import DocumentAccount, Imported
from mooring.importers.tracked import LeafEntry, LeafOutcome
from mooring.spec.document import format_path

FORMATS = ("text", "json", "markdown", "none")


def render(results: Sequence[Imported], style: str) -> str:
    """The report in one of FORMATS."""
    if style == "none":
        return ""
    if style == "json":
        return json.dumps([_data(one) for one in results], indent=2) + "\n"
    table = _markdown if style == "markdown" else _text
    return "\n".join(table(account) for one in results for account in one.accounts)


def _data(result: Imported) -> dict[str, object]:
    return {
        "job": result.name,
        "ok": result.text is not None,
        "documents": [
            {
                "source": account.source,
                "kind": account.kind,
                "fields": [
                    {
                        "field": format_path(entry.path),
                        "line": account.line_of(entry.path),
                        "outcome": entry.outcome.value,
                        "to": [format_path(to) for to in entry.to],
                        "note": entry.note,
                        **({"found": entry.found} if entry.outcome is LeafOutcome.REFUSED else {}),
                    }
                    for entry in account.entries
                ],
                "remarks": list(account.remarks),
            }
            for account in result.accounts
        ],
    }


def _says(entry: LeafEntry) -> str:
    to = ", ".join(format_path(one) for one in entry.to)
    if entry.outcome is LeafOutcome.MAPPED:
        return f"{to} ({entry.note})" if entry.note else to
    if entry.outcome is LeafOutcome.REFUSED:
        return f"found {entry.found}; accepted: {entry.note}"
    return entry.note


_SPACE = {"->": " ", ":": ""}


def _head(account: DocumentAccount) -> str:
    counts = Counter(entry.outcome for entry in account.entries)
    said = ", ".join(f"{counts[one]} {one.value}" for one in LeafOutcome)
    return f"{account.source}: {account.kind}: {said}"


def _text(account: DocumentAccount) -> str:
    lines = [_head(account)]
    for entry in account.entries:
        sign = "->" if entry.outcome is LeafOutcome.MAPPED else ":"
        where = format_path(entry.path)
        lines.append(f"  {entry.outcome.value:<7}  {where}{_SPACE[sign]}{sign} {_says(entry)}")
    lines += [f"  note: {remark}" for remark in account.remarks]
    return "\n".join(lines) + "\n"


def _markdown(account: DocumentAccount) -> str:
    lines = [f"## {_head(account)}", "", "| field | outcome | where, or why |", "|---|---|---|"]
    for entry in account.entries:
        says = _says(entry).replace("|", "\\|").replace("\n", " ")
        lines.append(f"| `{format_path(entry.path)}` | {entry.outcome.value} | {says} |")
    lines += ["", *(f"- {remark}" for remark in account.remarks)]
    return "\n".join(lines) + "\n"
