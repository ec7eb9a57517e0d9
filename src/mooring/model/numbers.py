"""Numbers in texts from outside: `int` also takes other scripts' digits, and raises for some."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The number that a text is, if it is nothing else and of a sensible length."""
    return int(text) if _WHOLE.fullmatch(text) else None
