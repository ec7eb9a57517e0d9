"""Writes the pages that come from the code, so that they cannot say anything else.

python docs/generate.py            writes them
python docs/generate.py --check    exits with 1 if one of them is out of date
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
from python_names import python_reference

from mooring.brain import filters, planner, scores  # noqa: F401  registers the rules
from mooring.brain.presets import recipe_for
from mooring.brain.profile import ALWAYS, EVENNESS, VOLUMES
from mooring.brain.registry import FILTERS, SCORES, Filter, Score
from mooring.cli.main import cli
from mooring.doctor import findings  # noqa: F401  registers the checks
from mooring.doctor.registry import CLUSTER_CHECKS, NODE_CHECKS, RUN_CHECKS, CheckPage
from mooring.importers import import_manifests
from mooring.importers.tracked import LeafEntry, LeafOutcome
from mooring.install.chart import chart
from mooring.install.rbac import grants
from mooring.install.settings import InstallSettings
from mooring.model.member import Duty, Gang, Member, MemberId, Preset
from mooring.simulate.trace import _COLUMNS as _CSV_COLUMNS
from mooring.simulate.workload_file import WorkloadFile
from mooring.spec.schema import _page, _schema, cluster_reference_markdown, reference_markdown
from mooring.wire.contract import CONTRACT_VERSION, Contract
from mooring.wire.events import EVENTS
from mooring.wire.fields import FieldFormat, formats_of
from mooring.wire.record import MemberRecord
from mooring.wire.records import MEMBER_RECORDS, VERSION

_HERE = Path(__file__).resolve().parent
_NOTE = "<!-- Written by docs/generate.py: edit the code, then run `make docs`. -->\n\n"
#: Help is wrapped to this, whatever the terminal of whoever runs this.
_COLUMNS = 88


def command_reference() -> str:
    """Every command's help, as `moor COMMAND --help` prints it."""
    group = cli.make_context("moor", [], resilient_parsing=True, terminal_width=_COLUMNS)
    parts = [
        "# Command reference\n",
        "What `moor --help` and `moor COMMAND --help` print. A RUN is a run's id, the unique "
        "beginning of one, the name of a job (its latest run), a run directory's path, or "
        "`last`.\n",
        _block(cli.get_help(group)),
    ]
    for name in cli.list_commands(group):
        command = cli.get_command(group, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=group)
        parts += [f"## moor {name}\n", _block(command.get_help(context))]
    return "\n".join(parts)


def workload_reference() -> str:
    """What `moor simulate` reads: the YAML form from its models, and the columns of the CSV."""
    columns = ", ".join(f"`{name}`" for name in _CSV_COLUMNS)
    return (
        "# Workload file reference\n\n"
        "What `moor simulate` reads; how to use it is in [the simulator](simulator.md). Generated "
        "from the models that check the file. A field without a default is required.\n"
        + _page(_schema(WorkloadFile, ""))
        + "\n## CSV\n\nA file whose name ends in `.csv` has one line for each job and one role in "
        "it. The first line names the columns, of which `name`, `arrival_s` and one of "
        "`duration_s` and `work_s` are needed; an empty cell has the default. Times are in "
        f"seconds.\n\nColumns: {columns}.\n"
    )


_RULES_HEAD = """# Rules of placement

Every filter and score that is registered, with what its source says of it. How they are put
together, and how to read a plan, is in [Where does my job go, and why](placement.md); how to add
one is in [CONTRIBUTING](../CONTRIBUTING.md#add-a-filter-or-a-score).

What an answer depends on: `fixed` = what the node is, asked once and kept; `node` = also what is
free there and who of the gang is there; `gang` = also other nodes.

"""


def rule_reference() -> str:
    """Every rule in the registries, one line each: rules of one file that share its words share
    the line.
    """
    used = {preset: _scores_of(preset) for preset in Preset}

    def always(rule: Filter | Score) -> str:
        if rule.name in VOLUMES:
            return "gangs that mount volumes"
        if rule.name in EVENNESS:
            return "gangs with such constraints"
        return "every plan" if rule.name in ALWAYS else "rules and profiles that ask for it"

    def weighed(rule: Filter | Score) -> str:
        by = [preset.value for preset, names in used.items() if rule.name in names]
        every = len(by) == len(used)
        return "every preset" if every else ", ".join(by) or "rules and profiles that ask for it"

    return "".join(
        (
            _RULES_HEAD,
            "## Filters\n\nA filter refuses a node, with a reason.\n\n",
            _rule_table(FILTERS.values(), "applies to", always),
            "\n## Scores\n\nA score compares the nodes that no filter refuses. More is better; "
            "the weight comes from the preset and the profile.\n\n",
            _rule_table(SCORES.values(), "weighed by", weighed),
        )
    )


def _scores_of(preset: Preset) -> set[str]:
    """What a preset weighs for a job with servers and workers and no wishes of its own."""
    members = tuple(Member(MemberId(role, 0), "job") for role in ("ps", "worker"))
    gang = Gang("job", members, preset, duties=(("ps", Duty.SERVES),))
    return {name for name, _ in recipe_for(gang).scores}


def _rule_table(
    rules: Iterable[Filter | Score], used: str, use: Callable[[Filter | Score], str]
) -> str:
    rows: dict[str, list[Filter | Score]] = {}
    for rule in rules:
        rows.setdefault(_says(rule), []).append(rule)
    lines = [f"| name | what it says | {used} | depends on |\n|---|---|---|---|\n"]
    for says, alike in rows.items():
        names = ", ".join(f"`{rule.name}`" for rule in alike)
        where, scope = _each(alike, use), _each(alike, lambda rule: rule.scope.value)
        lines.append(f"| {names} | {says} | {where} | {scope} |\n")
    return "".join(lines)


def _each(rules: list[Filter | Score], tell: Callable[[Filter | Score], str]) -> str:
    """What is true of all, or of each by its name."""
    told = {rule.name: tell(rule) for rule in rules}
    if len(set(told.values())) == 1:
        return tell(rules[0])
    return "; ".join(f"`{name}`: {words}" for name, words in told.items())


def _says(rule: Filter | Score) -> str:
    """The rule's own docstring, otherwise that of its file; on one line."""
    own = inspect.getdoc(rule.rule)
    text = own or inspect.getdoc(inspect.getmodule(rule.rule)) or ""
    return " ".join(text.split()).replace("|", "\\|")


_MANIFESTS = _HERE.parent / "tests" / "unit" / "importers" / "manifests"
#: Mappings whose keys are the user's own, and lists of which the name is the user's.
_FREE = {
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "sparkConf",
    "env",
    "ports",
    "secretEnv",
    "configMapEnv",
    "fieldEnv",
}
_IMPORT_HEAD = """# What an import does with each field

Made by importing one manifest of each kind, in the style of its project's own examples
(`tests/unit/importers/manifests`). How to import, and what the words mean, is in
[Bring jobs over from other operators](import.md). A field that is not listed here may be known all
the same; one that is not known is an error, never lost. `*` is any name, `[]` any item.

"""


def import_reference() -> str:
    """What `moor import` did with each field of the manifests, by kind; pod templates apart."""
    kinds: dict[str, dict[str, dict[str, None]]] = {}
    pods: dict[str, dict[str, None]] = {}
    for path in sorted(_MANIFESTS.glob("*.yaml")):
        for result in import_manifests([(path.name, path.read_text(encoding="utf-8"))]):
            for account in result.accounts:
                document = account.ledger.root.value
                rows = kinds.setdefault(_title(document), {})
                inside = list(_pod_templates(document))
                for entry in account.entries:
                    cut = max((len(at) for at in inside if entry.path[: len(at)] == at), default=0)
                    field = _shown(entry.path[cut:])
                    if cut:
                        pods.setdefault(field, {})[_outcome(entry)] = None
                        rows.setdefault(_shown(entry.path[:cut]), {})["see pod templates"] = None
                    else:
                        rows.setdefault(field, {})[_outcome(entry)] = None
    tables = [f"## {kind}\n\n{_field_table(rows)}" for kind, rows in sorted(kinds.items())]
    tables.append(f"## Pod templates\n\n{_field_table(pods)}")
    return _IMPORT_HEAD + "\n".join(tables)


def _title(document: dict[str, str]) -> str:
    return f"{document['kind']} ({document['apiVersion']})"


def _pod_templates(
    value: object, at: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Where the pod templates of a document are: what has a spec with containers."""
    if isinstance(value, dict):
        if isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
            yield at
        for key, below in value.items():
            yield from _pod_templates(below, (*at, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _pod_templates(below, (*at, index))


def _shown(path: tuple[str | int, ...]) -> str:
    text = ""
    for number, part in enumerate(path):
        free = number > 0 and (
            path[number - 1] in _FREE or str(path[number - 1]).endswith("ReplicaSpecs")
        )
        name = "[]" if isinstance(part, int) else "*" if free or "/" in part else part
        text += name if name == "[]" else f".{name}" if text else name
    return text


def _outcome(entry: LeafEntry) -> str:
    if entry.outcome is LeafOutcome.DROPPED:
        return f"dropped: {entry.note}"
    to = ", ".join(f"`{_job_field(one)}`" for one in entry.to)
    return f"{to}: {entry.note}" if entry.note else to


def _job_field(path: tuple[str | int, ...]) -> str:
    named = tuple(
        "*" if path[:2] == ("spec", "roles") and i == 2 else p for i, p in enumerate(path)
    )
    return _shown(named)


def _field_table(rows: dict[str, dict[str, None]]) -> str:
    lines = ["| field | becomes |\n|---|---|\n"]
    for field, outcomes in rows.items():
        lines.append(f"| `{field}` | {'; or '.join(outcomes)} |\n".replace("\n |", " |"))
    return "".join(lines)


def permissions() -> str:
    """What the operator may do, from the table that its roles are made of."""
    rows = [
        "| where | API group | resources | verbs | only | what for |",
        "|---|---|---|---|---|---|",
    ]
    for grant in grants(InstallSettings(kubelet_config=True, volcano=True)):
        cells = (
            grant.where.value,
            f"`{grant.group}`" if grant.group else "core",
            ", ".join(f"`{one}`" for one in grant.resources),
            ", ".join(grant.verbs),
            ", ".join(f"`{one}`" for one in grant.names),
            grant.reason,
        )
        rows.append("| " + " | ".join(cells) + " |")
    return (
        "# What the operator may do\n\n"
        "Every right of its service account, with the optional ones. There is no other: no "
        "wildcard, no secret is read, no logs, no commands in pods. The namespaces of jobs are "
        "all, or those that `moor install --watch` names. How the rest is kept safe is in "
        "[security](security.md).\n\n" + "\n".join(rows) + "\n"
    )


_FORMATS_HEAD = f"""# Formats

What runs write and launchers read, from the types that do it (`src/mooring/wire`). Where the files
are is in [concepts](concepts.md#the-run-directory).

## Journals

`events.jsonl` is by `moor`, `samples/MEMBER.jsonl` by the member's launcher. Both are append-only
JSON lines, each one `write(2)`: a crash tears at most the last line, which readers pass over.

Every line has `t` (seconds since 1970), `kind`, and `v`, the version of the format: {VERSION} now,
1 where it is missing. It grows when an older reader would take a line for something else. A line of
a newer version is refused with an error that names the file; kinds and fields that a reader does
not know are passed over. Null means the same as a field that is missing.

"""
_FORMATS_TAIL = """
## Other files

**logs/MEMBER.log**: `2026-11-15T20:55:31.390071Z out 0 step    40 loss 0.6448`: UTC time, `out` or
`err`, local rank, text. Carriage returns end a line too, lines are cut at 64 KiB, bytes that are no
text are replaced. On a full disk lines are dropped, not the job.

**A step on standard output**:
`::mooring:: {"step": 40, "examples": 20480, "loss": 0.64, "total": 1200}`, one write, anywhere in a
line. The launcher takes it and does not log it. Any program in any language may print it. A
document with `variables` or `program` instead becomes a record of that kind.

**stacks-at-stall.txt**: the stacks of all threads of all members, each time that a standstill was
looked at. Names of functions and files, no values.

**plan.json, run.json, start.json, report.json**, and of a run with `--fix` **fix.json**, are
replaced whole, never edited. A plan has a `version`, too: one of a newer Mooring is not taken for
free room.

## How bytes are counted

By the kernel, for each socket (netlink `sock_diag`). What a socket carried between the last sample
and its end is lost. A connection that a peer opened comes from a port that nobody announced, so its
peer is known only where an address belongs to one member; on loopback it counts as `other`.
"""
_CONTRACT_HEAD = f"""## The launcher's contract

`launcher.pyz run CONTRACT.json`; in a pod it comes in a variable. `version` is {CONTRACT_VERSION},
and another one is refused. Keys that are missing have their default, unknown ones are passed over,
and one that is wrong is named in the error.

"""


def format_reference() -> str:
    """Every record with its fields, and the contract, from their types."""
    parts = [_FORMATS_HEAD, "## events.jsonl\n\n"]
    for record_type in EVENTS:
        parts.append(_record_section(record_type.kind, record_type, formats_of(record_type)))
    common = ", ".join(f"`{each.key}` ({each.meaning})" for each in formats_of(MemberRecord))
    parts.append(f"## samples/MEMBER.jsonl\n\nEvery line also has {common}.\n\n")
    for member_type in MEMBER_RECORDS:
        own = formats_of(member_type)[len(formats_of(MemberRecord)) :]
        parts.append(_record_section(member_type.kind, member_type, own))
    parts += [_CONTRACT_HEAD, _format_table(formats_of(Contract)), "\n"]
    parts += _inside(formats_of(Contract))
    return "".join(parts).rstrip() + "\n" + _FORMATS_TAIL


def _record_section(title: str, record_type: type, formats: Iterable[FieldFormat]) -> str:
    formats = tuple(formats)
    says = " ".join((inspect.getdoc(record_type) or "").split())
    return f"### {title}\n\n{says}\n\n{_format_table(formats)}\n" + "".join(_inside(formats))


def _inside(formats: Iterable[FieldFormat]) -> Iterator[str]:
    """The objects that fields hold, each once."""
    for each in formats:
        for part in each.kind.parts:
            says = " ".join((inspect.getdoc(part) or "").split())
            yield f"`{part.__name__}`: {says}\n\n{_format_table(formats_of(part))}\n"
            yield from _inside(formats_of(part))


def _format_table(formats: Iterable[FieldFormat]) -> str:
    lines = ["| field | holds | meaning |\n|---|---|---|\n"]
    for each in formats:
        meaning = each.meaning.replace("|", "\\|")
        lines.append(f"| `{each.key}` | {each.kind.words} | {meaning} |\n")
    return "".join(lines)


def finding_pages() -> dict[str, str]:
    """One page a check of the doctor, and a list of them."""
    groups = (
        ("Of a run", "`moor doctor RUN`", RUN_CHECKS.values()),
        ("Of a machine or container", "`moor doctor --node`", NODE_CHECKS.values()),
        ("Of a cluster", "`moor doctor --context C`", CLUSTER_CHECKS.values()),
    )
    index = "# Findings\n\nWhat [the doctor](../doctor.md) can find, from its own registry.\n"
    pages = {}
    for title, command, checks in groups:
        rows = [f"\n## {title}\n\n{command}\n\n| id | title |\n|---|---|\n"]
        for check in checks:
            pages[f"findings/{check.id}.md"] = _NOTE + _finding_page(
                check.id, check.title, command, check.page
            )
            rows.append(f"| [{check.id}]({check.id}.md) | {check.title} |\n")
        index += "".join(rows)
    return {"findings/README.md": _NOTE + index, **pages}


def _finding_page(id: str, title: str, command: str, page: CheckPage) -> str:
    parts = [
        f"# {title}\n",
        f"`{id}`, by {command}\n",
        f"## Why it matters\n\n{page.why}\n",
        f"## How it is measured\n\n{page.measured}\n",
        f"## What to do\n\n{page.fix}\n",
    ]
    if page.not_when:
        parts.append(f"## When not\n\n{page.not_when}\n")
    return "\n".join(parts)


def _block(text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def pages() -> dict[str, str]:
    """File name -> what it must say."""
    return {
        "job-reference.md": _NOTE + reference_markdown(),
        "cluster-reference.md": _NOTE + cluster_reference_markdown(),
        "workload-reference.md": _NOTE + workload_reference(),
        "rules.md": _NOTE + rule_reference(),
        "cli.md": _NOTE + command_reference(),
        "formats.md": _NOTE + format_reference(),
        "permissions.md": _NOTE + permissions(),
        "python-reference.md": _NOTE + python_reference(),
        **{f"../charts/mooring/{path}": text for path, text in chart().items()},
        **finding_pages(),
        "import-reference.md": _NOTE + import_reference(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated pages of the documentation.")
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    check = parser.parse_args().check
    stale = 0
    for name, wanted in pages().items():
        path = (_HERE / name).resolve()
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        stale += 1
        shown = path.relative_to(_HERE.parent)
        if check:
            print(f"{shown} is out of date: run `make docs`", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
            print(f"wrote {shown}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
