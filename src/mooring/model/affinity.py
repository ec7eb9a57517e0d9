"""Conditions on a node's labels, with the operators of Kubernetes' node affinity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True)
class Requirement:
    """One condition on one label. `Gt` and `Lt` compare whole numbers."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        try:
            has, bound = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return has > bound if self.operator is Operator.GT else has < bound

    def __str__(self) -> str:
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            return f"{self.key} {self.operator}"
        return f"{self.key} {self.operator} {','.join(self.values)}"


@dataclass(frozen=True)
class Term:
    """All requirements together. The weight counts where a term is only a preference."""

    requirements: tuple[Requirement, ...]
    weight: int = 1

    def matches(self, labels: Mapping[str, str]) -> bool:
        """A term without requirements matches no node, as in Kubernetes."""
        return bool(self.requirements) and all(one.matches(labels) for one in self.requirements)

    def __str__(self) -> str:
        return " and ".join(str(one) for one in self.requirements)


@dataclass(frozen=True)
class NodeWish:
    """Where a member may go: any of the `required` terms, and which nodes it would like.

    `node` is the one node that it must be on; `gpu_kind` what its devices must be, and
    `gpu_memory_bytes` the least that each of them must have.
    """

    required: tuple[Term, ...] = ()
    preferred: tuple[Term, ...] = ()
    node: str = ""
    gpu_kind: str = ""
    gpu_memory_bytes: int = 0


ANYWHERE = NodeWish()
