"""What is seen inside the program, as lines to the launcher: see `mooring.sdk.tell`.

Nothing is written before the program has made a strategy with parameter servers: another program
that this one starts, and whose output it reads, gets nothing of ours between its lines.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MARK = "::mooring:: "
_STDOUT = 1
#: A program that fails in a new way again and again is not told of again and again.
_MOST_WAITING = 50

_begun = False
_waiting: list[dict[str, Any]] = []
_seen: set[str] = set()


def begin() -> None:
    """The program uses parameter servers: say what has been seen so far, and go on saying."""
    global _begun
    _begun = True
    while _waiting:
        _write(_waiting.pop(0))


def tell(document: dict[str, Any]) -> None:
    """One line to the launcher, now or once there is a strategy."""
    if _begun:
        _write(document)
    elif len(_waiting) < _MOST_WAITING:
        _waiting.append(document)


def saw(trait: str) -> None:
    """What kind of program this is, each trait once: `mooring.doctor.facts.Trait` lists them."""
    if trait not in _seen:
        _seen.add(trait)
        tell({"program": {"trait": trait}})


def note(text: str) -> None:
    """A line for the report."""
    tell({"program": {"note": text[:500]}})


def _write(document: dict[str, Any]) -> None:
    if "MOORING_MEMBER" not in os.environ:
        return
    try:
        sys.stdout.flush()
        os.write(_STDOUT, (_MARK + json.dumps(document) + "\n").encode())
    except (OSError, ValueError, AttributeError):
        # Standard output is closed, or is not one: nobody reads this.
        return
