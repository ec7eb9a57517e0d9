"""Ages as users write them: 30m, 12h, 7d, 4w."""

from __future__ import annotations

import re

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def age_s(text: str, command: str, option: str) -> float:
    """Raises BadInput for what is no age."""
    from mooring.model.errors import BadInput

    age = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhdw])", text)
    if age is None:
        raise BadInput.at(command, option, repr(text), "an age such as 30m, 12h, 7d or 4w")
    return float(age[1]) * _UNITS_S[age[2]]
