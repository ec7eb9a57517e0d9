"""Variables that a strategy has divided, and those of Keras, as the plain ones that they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def parts_of(variables: Iterable[Any]) -> list[Any]:
    """Every `tf.Variable` behind these: the parts of a divided one, the one inside of Keras' own.

    Gradients are taken with respect to parts: a divided variable has no handle of its own.
    """
    return [part for variable in variables for part in parts(variable)]


def parts(variable: Any) -> list[Any]:
    inner = getattr(variable, "value", None)
    if inner is not None and not callable(inner):
        return parts(inner)
    return list(getattr(variable, "variables", [variable]))
