"""JSON that every reader takes: `NaN` and `Infinity` are no JSON."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(document: object) -> str:
    """Strict JSON in ASCII; a number that JSON cannot write is `null`."""
    return json.dumps(_finite(document), indent=1, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value
