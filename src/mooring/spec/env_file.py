"""Files of variables: a `KEY=VALUE` a line, as shells, Docker and dotenv write them.

Lines may begin with `export`; `#` begins a comment. A value in single quotes is taken as it is; in
double quotes a backslash escapes n, t, r, $ and itself. Both may go over several lines. Nothing is
replaced in values. Errors never show a value: it may be a secret.
"""

from __future__ import annotations

import re
from pathlib import Path

from mooring.model.errors import BadInput, Problem
from mooring.spec.source import name_of, read_text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(
    r"\s*(?:export\s+)?(?P<name>[^=\s'\"#]*)\s*=[ \t]*(?P<value>.*)", re.DOTALL
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$", "`": "`"}
_ACCEPTED = "KEY=VALUE, a comment or an empty line"


def load_env_file(path: Path) -> dict[str, str]:
    """The variables of a file; of a name that is there twice the last. Raises BadInput."""
    return parse_env(read_text(path, accepted="a readable file of KEY=VALUE lines"), name_of(path))


def parse_env(text: str, source: str) -> dict[str, str]:
    """The variables in a text; `source` names it in errors. Raises BadInput with every problem."""
    variables: dict[str, str] = {}
    problems: list[Problem] = []
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        number, line = at + 1, lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(line)
        if match is None:
            problems.append(Problem("line", "a line without KEY=", _ACCEPTED, number))
            continue
        name, value = match["name"], match["value"]
        if _NAME.fullmatch(name) is None or name.startswith("MOORING_"):
            # The name is not shown: it may be a part of a value.
            problems.append(_bad_name(name, number))
            continue
        quote = value[:1]
        if quote in ("'", '"'):
            end = _closing(value)
            while end is None and at < len(lines):
                value += "\n" + lines[at]
                at += 1
                end = _closing(value)
            if end is None:
                problems.append(
                    Problem(name, "a quote that is never closed", "both quotes", number)
                )
                continue
            rest = value[end + 1 :].strip()
            if rest and not rest.startswith("#"):
                found = "something after the closing quote"
                problems.append(Problem(name, found, "nothing or a comment there", number))
                continue
            inside = value[1:end]
            value = _unescaped(inside) if quote == '"' else inside
        else:
            value = re.split(r"(?:^|\s)#", value, maxsplit=1)[0].rstrip()
        if "\0" in value:
            problems.append(Problem(name, "a value with a NUL character", "text", number))
            continue
        variables[name] = value
    if problems:
        raise BadInput(source, problems)
    return variables


def _bad_name(name: str, number: int) -> Problem:
    if name.startswith("MOORING_"):
        accepted = "another name: those that begin with MOORING_ are set by Mooring"
        return Problem(name[:64], "a reserved name", accepted, number)
    accepted = "letters, digits and '_', not beginning with a digit"
    return Problem("line", "a name with something else in it", accepted, number)


def _closing(value: str) -> int | None:
    """The place of the quote that closes the first one."""
    quote, at = value[0], 1
    while at < len(value):
        if quote == '"' and value[at] == "\\":
            at += 2
            continue
        if value[at] == quote:
            return at
        at += 1
    return None


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text, flags=re.DOTALL)
