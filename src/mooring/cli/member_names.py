"""Members as users name them, and the colour that each has wherever its lines are shown."""

from __future__ import annotations

from collections.abc import Sequence

#: Red is kept for failures.
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "bright_cyan", "bright_magenta")


def choose_members(
    known: Sequence[str], wanted: Sequence[str], command: str, option: str
) -> list[str]:
    """The members that are meant by their names or by the names of roles; all if none is named."""
    from mooring.model.errors import BadInput

    chosen: list[str] = []
    for name in wanted:
        meant = [m for m in known if m == name or m.rsplit("-", 1)[0] == name]
        if not meant:
            raise BadInput.at(command, option, repr(name), f"one of {', '.join(known)}")
        chosen += [member for member in meant if member not in chosen]
    return chosen or list(known)


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
