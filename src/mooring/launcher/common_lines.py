"""Steps in what most training scripts print anyway: a step number and a loss in one line.

`step 40 loss 0.64`, `Iter: 40/1000, loss=0.64`, `[Epoch 2, batch 40] loss: 0.640`, a progress bar
with a loss behind it. Both have to be there: a line with a number alone may mean anything.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Bounded repeats, and nothing that can match the same text in two ways: linear on any line.
_GAP = r"['\"]?[ \t]{0,4}[:=#]?[ \t]{0,4}"
_STEP = re.compile(
    r"(?<![a-z])(?:global[_ ]?step|step|iteration|iter|batch)s?"
    + _GAP
    + r"\[?(\d{1,15})(?![\d.%])(?:[ \t]{0,4}(?:/|of)[ \t]{0,4}(\d{1,15}))?",
    re.IGNORECASE,
)
_BAR = re.compile(r"\|[ \t]{0,4}(\d{1,15})/(\d{1,15})[ \t]\[")
_LOSS = re.compile(
    r"(?<![a-z])(?:([a-z]{1,20})[_ -])?loss"
    + _GAP
    + r"([-+]?\d{1,15}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?)",
    re.IGNORECASE,
)
_NOT_TRAINING = frozenset(["val", "valid", "validation", "eval", "evaluation", "test", "dev"])
_LONGEST_LINE = 1024


class CommonLines:
    """Reads the lines of one rank. Step numbers that begin anew (each epoch) are counted on."""

    def __init__(self) -> None:
        self._last = 0
        self._before = 0
        self._began_anew = False

    def read(self, line: bytes) -> dict[str, Any] | None:
        """`step`, `loss` and perhaps `total` of a line that reports a step; None for others."""
        if b"oss" not in line or len(line) > _LONGEST_LINE:
            return None
        text = line.decode("utf-8", "replace")
        loss = next(
            (
                one
                for one in _LOSS.finditer(text)
                if (one.group(1) or "").lower() not in _NOT_TRAINING
            ),
            None,
        )
        step = _STEP.search(text) or _BAR.search(text)
        if loss is None or step is None:
            return None
        number = int(step.group(1))
        if number < self._last:
            self._before += self._last
            self._began_anew = True
        self._last = number
        fields: dict[str, Any] = {"step": self._before + number, "loss": loss.group(2)}
        # Of a script that counts within epochs this would be the epoch's.
        if step.group(2) and not self._began_anew and "epoch" not in text.lower():
            fields["total"] = step.group(2)
        return fields
