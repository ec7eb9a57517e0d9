"""Commands in which a part is known only where they run.

Kubernetes and the operators put texts into a command that only they know: `$(RANK)`, the host name
of a pod. A `Word` keeps such a part as a shell expression. Commands without one stay the list that
they were; the others are given to `sh`, which replaces itself by the program.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Expression:
    """A part that the shell works out where the member runs; it may stand in double quotes."""

    code: str


Word = tuple[str | Expression, ...]

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_SHELL_OPTIONS = re.compile(r"-[a-z]*c")
#: How the kubelet reads a reference: `$$` is a dollar that begins none.
_REFERENCE = re.compile(r"\$\$|\$\(([^()\s]+)\)")


def word(text: str) -> Word:
    return (text,) if text else ()


def plain(parts: Word) -> str | None:
    """The text, if the shell has nothing to work out."""
    if any(isinstance(part, Expression) for part in parts):
        return None
    return "".join(part for part in parts if isinstance(part, str))


def variable(name: str) -> Expression:
    return Expression(f"${{{name}}}")


def peer(role: str, index: int, part: str = "host") -> Expression:
    """`host`, `port` or `address` (both) of a member, from the variable MOORING_PEERS."""
    address = (
        f"""echo "$MOORING_PEERS" | sed 's/.*"{role}":\\[//;s/\\].*//' | cut -d, -f{index + 1} """
        """| tr -d '"'"""
    )
    if part == "host":
        address += " | sed 's/:[0-9]*$//'"
    elif part == "port":
        address += " | sed 's/.*://'"
    return Expression(f"$({address})")


def expand_references(text: str, known: Mapping[str, Word]) -> Word:
    """As the kubelet does it: `$(NAME)` is replaced if there is such a variable, otherwise kept."""
    parts: list[str | Expression] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        name = match.group(1)
        if name is None:
            parts.append("$")
        elif name in known:
            parts.extend(known[name])
        else:
            parts.append(match.group())
    parts.append(text[end:])
    return joined(parts)


def joined(parts: Sequence[str | Expression]) -> Word:
    """Neighbouring texts as one; nothing empty."""
    result: list[str | Expression] = []
    for part in parts:
        if part == "":
            continue
        if isinstance(part, str) and result and isinstance(result[-1], str):
            result[-1] += part
        else:
            result.append(part)
    return tuple(result)


def is_script(argv: Sequence[Word]) -> bool:
    """Whether it is `sh -c SCRIPT …`."""
    if len(argv) < 3:
        return False
    program, option = plain(argv[0]), plain(argv[1])
    return (
        program is not None
        and PurePosixPath(program).name in _SHELLS
        and option is not None
        and _SHELL_OPTIONS.fullmatch(option) is not None
    )


def command(argv: Sequence[Word], exports: Mapping[str, Word]) -> list[str]:
    """The command as the job file has it."""
    head = "".join(f"export {name}={_quoted(value)}\n" for name, value in exports.items())
    texts = [plain(one) for one in argv]
    literal = [text for text in texts if text is not None]
    if not head and len(literal) == len(argv):
        return literal
    if is_script(argv):
        others = [plain(one) for number, one in enumerate(argv) if number != 2]
        if None not in others:
            script = "".join(part if isinstance(part, str) else part.code for part in argv[2])
            return [str(others[0]), str(others[1]), head + script, *map(str, others[2:])]
    if len(literal) == len(argv):
        return ["sh", "-c", head + 'exec "$@"', "sh", *literal]
    return ["sh", "-c", head + "exec " + " ".join(_quoted(one) for one in argv)]


def _quoted(parts: Word) -> str:
    return (
        "".join(shlex.quote(part) if isinstance(part, str) else f'"{part.code}"' for part in parts)
        or "''"
    )
