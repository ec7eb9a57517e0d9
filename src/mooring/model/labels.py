"""Labels as a value: pairs in the order of the keys, so that equal labels are equal."""

from __future__ import annotations

from collections.abc import Mapping

Labels = tuple[tuple[str, str], ...]


def labels_of(mapping: Mapping[str, str]) -> Labels:
    return tuple(sorted(mapping.items()))
