"""A diagnosis for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from mooring.doctor.finding import Checked, Confidence, Diagnosis, Figure, Finding

_STYLE = {
    Confidence.CERTAIN: "bold red",
    Confidence.LIKELY: "bold yellow",
    Confidence.POSSIBLE: "bold",
}
_MOST_NAMES = 6


def diagnosis(found: Diagnosis, patches: dict[str, str]) -> RenderableType:
    """`patches`: finding id -> its remedy as a diff of the job file, where it has one."""
    parts: list[RenderableType] = []
    for number, finding in enumerate(found.findings, 1):
        parts += [_finding(number, finding, patches.get(finding.id, "")), Text()]
    return Group(*parts, *_summary(found))


def _finding(number: int, finding: Finding, patch: str) -> RenderableType:
    one = finding.found
    head = Text.assemble(
        (f"{number}. {finding.title}", _STYLE[one.confidence]),
        (f"  {finding.id}, {one.confidence.value}", "dim"),
    )
    body: list[RenderableType] = [Text(one.says)]
    body += [Text(f"· {_figure(figure)}") for figure in one.evidence]
    body += [Text(finding.why, style="dim"), Text.assemble(("do: ", "bold"), one.remedy.does)]
    if one.remedy.where:
        body.append(Text(f"where: {one.remedy.where}", style="dim"))
    if patch:
        body.append(Syntax(patch.rstrip(), "diff", theme="ansi_dark", background_color="default"))
    if one.remedy.code:
        body.append(
            Syntax(
                one.remedy.code.rstrip(), "python", theme="ansi_dark", background_color="default"
            )
        )
    if one.gain is not None:
        body.append(
            Text.assemble(("expected: ", "bold"), one.gain.said, (f"  ({one.gain.basis})", "dim"))
        )
    return Group(head, Padding(Group(*body), (0, 0, 0, 3), expand=False))


def _figure(figure: Figure) -> str:
    names = ", ".join(figure.members[:_MOST_NAMES])
    if len(figure.members) > _MOST_NAMES:
        names += f" and {len(figure.members) - _MOST_NAMES} more"
    where = f"  [{figure.source}]" if figure.source else ""
    who = f" ({names})" if names else ""
    return f"{figure.what}: {figure.said}{who}{where}"


def _summary(found: Diagnosis) -> list[RenderableType]:
    fine = [one.title for one in found.checked if not one.findings and not one.unknown]
    unknown = [one for one in found.checked if one.unknown]
    parts: list[RenderableType] = []
    if not found.findings:
        parts.append(Text("Nothing found.", style="bold green"))
    if fine:
        parts.append(Text(f"Looked for, and not found: {_joined(fine)}.", style="dim"))
    reasons: dict[str, list[Checked]] = {}
    for one in unknown:
        reasons.setdefault(one.unknown, []).append(one)
    for reason, ones in reasons.items():
        titles = _joined([one.title for one in ones])
        parts.append(Text(f"Not answered ({reason}): {titles}.", style="dim"))
    return parts


def _joined(titles: list[str]) -> str:
    """In one sentence: small letters, but for abbreviations."""
    return "; ".join(
        title[0].lower() + title[1:] if not title[:2].isupper() else title for title in titles
    )
