"""A diagnosis for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.text import Text

from mooring.account import words
from mooring.doctor.finding import CheckAnswer, Checked, Confidence, Diagnosis, Figure, Finding

_STYLE = {
    Confidence.CERTAIN: "bold red",
    Confidence.LIKELY: "bold yellow",
    Confidence.POSSIBLE: "bold",
}
_UNANSWERED = {
    CheckAnswer.NOT_RECOGNISED: "Not recognised",
    CheckAnswer.UNSEEN: "Cannot be seen here",
    CheckAnswer.NOT_ASKED: "Does not apply",
}
_DIFF = {"+": "green", "-": "red", "@": "cyan"}
_MOST_NAMES = 6
_INDENT = "   "
#: Longer lines are hard to read, however wide the terminal is.
_WIDEST = 110


def diagnosis(found: Diagnosis, patches: Sequence[str], width: int) -> Text:
    """`patches`: the remedy of each finding as a diff of the job file, where it has one."""
    lines = [Text(line) for line in words.lines(found.account)]
    lines += [Text()] if lines else []
    for number, (finding, patch) in enumerate(zip(found.findings, patches, strict=True), 1):
        because = _because(finding, found.findings)
        lines += [*_finding(number, finding, patch, because, min(width, _WIDEST)), Text()]
    lines += _summary(found, min(width, _WIDEST))
    return Text("\n").join(lines)


def _because(finding: Finding, findings: Sequence[Finding]) -> str:
    """`1, A network card is full`: the number that each cause has on the page."""
    return "; ".join(
        f"{number}, {cause.title[0].lower()}{cause.title[1:]}"
        for number, cause in enumerate(findings, 1)
        if cause.id in finding.because
    )


def _finding(number: int, finding: Finding, patch: str, because: str, width: int) -> Iterator[Text]:
    one = finding.found
    yield Text.assemble(
        (f"{number}. {finding.title}", _STYLE[one.confidence]),
        (f"  {finding.id}, {one.confidence.value}", "dim"),
    )
    yield from _wrapped(one.says, width)
    if because:
        yield from _wrapped(f"because of {because}", width, "bold")
    for figure in one.evidence:
        yield from _wrapped(f"· {figure_in_words(figure)}", width)
    yield from _wrapped(finding.why, width, "dim")
    yield from _wrapped(f"do: {one.remedy.does}", width, "bold")
    if one.remedy.where:
        yield from _wrapped(f"where: {one.remedy.where}", width)
    for line in patch.splitlines():
        yield Text(f"{_INDENT}{line}", style=_DIFF.get(line[:1], ""))
    for line in one.remedy.code.splitlines():
        yield Text(f"{_INDENT}  {line}", style="cyan")
    if one.gain is not None:
        yield from _wrapped(f"expected: {one.gain.said}  ({one.gain.basis})", width)


def _wrapped(text: str, width: int, style: str = "") -> Iterator[Text]:
    # A path that is broken cannot be copied.
    wrapper = textwrap.TextWrapper(
        max(20, width - len(_INDENT)), break_on_hyphens=False, break_long_words=False
    )
    for line in wrapper.wrap(text):
        yield Text(_INDENT + line, style=style)


def figure_in_words(figure: Figure) -> str:
    """A number of the evidence: what it is, of whom, and where it was read."""
    names = ", ".join(figure.members[:_MOST_NAMES])
    if len(figure.members) > _MOST_NAMES:
        names += f" and {len(figure.members) - _MOST_NAMES} more"
    where = f"  [{figure.source}]" if figure.source else ""
    who = f" ({names})" if names else ""
    return f"{figure.what}: {figure.said}{who}{where}"


def _summary(found: Diagnosis, width: int) -> Iterator[Text]:
    if not found.findings:
        yield Text("Nothing found.", style="bold green")
    fine = [checked for checked in found.checked if checked.answer is CheckAnswer.EXCLUDED]
    said = [("Looked for, and not found", fine)] if fine else []
    for answer, head in _UNANSWERED.items():
        reasons: dict[str, list[Checked]] = {}
        for checked in found.checked:
            if checked.answer is answer:
                reasons.setdefault(checked.unknown, []).append(checked)
        said += [(f"{head} ({reason})", ones) for reason, ones in reasons.items()]
    for head, ones in said:
        for line in textwrap.wrap(f"{head}: {_joined(ones)}.", max(20, width)):
            yield Text(line, style="dim")


def _joined(checks: Sequence[Checked]) -> str:
    """Titles in one sentence: small letters, but for abbreviations."""
    titles = [check.title for check in checks]
    return "; ".join(
        title if title[1].isupper() else title[0].lower() + title[1:] for title in titles
    )
