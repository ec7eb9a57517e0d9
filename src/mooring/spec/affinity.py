"""Node affinity in a job file, spelled as in a Kubernetes pod, so that it can be pasted."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import Field, model_validator

from mooring.model.affinity import NodeWish, Operator, Requirement, Term
from mooring.spec.base import Rejection, SpecModel, describe, rejected
from mooring.spec.fields import FilledText, Text, Whole

#: Terms of a job and of a role are combined, each with each: this bounds what comes of it.
MOST_TERMS = 20
_MOST_VALUES = 1000
_WHOLE_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)


class RequirementSpec(SpecModel):
    """One condition on one label of a node."""

    key: FilledText = Field(description="The label's key.", examples=["zone"])
    operator: Operator = Field(
        description="`In`, `NotIn`: one of the values, or none of them; `Exists`, `DoesNotExist`: "
        "whether the node has the label; `Gt`, `Lt`: the label as a whole number is above or below "
        "the one value.",
        examples=["In"],
    )
    values: Annotated[tuple[Text, ...], Field(max_length=_MOST_VALUES)] = Field(
        (), description="What the label is compared with.", examples=[["a", "b"]]
    )

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        given = f"{len(self.values)} values" if len(self.values) != 1 else describe(self.values[0])
        accepted = ""
        match self.operator:
            case Operator.IN | Operator.NOT_IN:
                if not self.values:
                    accepted = f"at least one value with operator {self.operator}"
            case Operator.EXISTS | Operator.DOES_NOT_EXIST:
                if self.values:
                    accepted = f"no values with operator {self.operator}"
            case Operator.GT | Operator.LT:
                if len(self.values) != 1 or _WHOLE_NUMBER.fullmatch(self.values[0]) is None:
                    accepted = f'one whole number in quotes ("8") with operator {self.operator}'
        if accepted:
            raise rejected([Rejection(given, accepted, ("values",))])
        return self

    def to_model(self) -> Requirement:
        return Requirement(self.key, self.operator, self.values)


_Requirements = Annotated[tuple[RequirementSpec, ...], Field(min_length=1, max_length=MOST_TERMS)]
_EXPRESSIONS = [{"key": "zone", "operator": "In", "values": ["a", "b"]}]


class TermSpec(SpecModel):
    """Conditions that a node must meet together."""

    match_expressions: _Requirements = Field(
        alias="matchExpressions",
        description="The conditions: all of them hold.",
        examples=[_EXPRESSIONS],
    )

    def to_model(self, weight: int = 1) -> Term:
        return Term(tuple(each.to_model() for each in self.match_expressions), weight)


class RequiredSpec(SpecModel):
    """Which nodes there are at all for a member."""

    node_selector_terms: Annotated[
        tuple[TermSpec, ...], Field(min_length=1, max_length=MOST_TERMS)
    ] = Field(
        alias="nodeSelectorTerms",
        description="A node that meets any one of these terms will do.",
        examples=[[{"matchExpressions": _EXPRESSIONS}]],
    )


class PreferenceSpec(SpecModel):
    """Which nodes a member would like, and how much."""

    weight: Annotated[Whole, Field(ge=1, le=100)] = Field(
        description="How much it counts beside the other preferences: 1 to 100.", examples=[10]
    )
    preference: TermSpec = Field(
        description="What the node should meet.", examples=[{"matchExpressions": _EXPRESSIONS}]
    )


class NodeAffinitySpec(SpecModel):
    """Node affinity, as in a Kubernetes pod."""

    required: RequiredSpec | None = Field(
        None,
        alias="requiredDuringSchedulingIgnoredDuringExecution",
        description="Other nodes are refused.",
        examples=[{"nodeSelectorTerms": [{"matchExpressions": _EXPRESSIONS}]}],
    )
    preferred: Annotated[tuple[PreferenceSpec, ...], Field(max_length=MOST_TERMS)] = Field(
        (),
        alias="preferredDuringSchedulingIgnoredDuringExecution",
        description="Nodes that meet these score more, by weight.",
        examples=[[{"weight": 10, "preference": {"matchExpressions": _EXPRESSIONS}}]],
    )

    def terms(self) -> tuple[Term, ...]:
        if self.required is None:
            return ()
        return tuple(term.to_model() for term in self.required.node_selector_terms)

    def preferences(self) -> tuple[Term, ...]:
        return tuple(each.preference.to_model(each.weight) for each in self.preferred)


def wish_of(
    job: NodeAffinitySpec | None, role: NodeAffinitySpec | None, node_name: str | None
) -> NodeWish:
    """What the job and the role ask for together: required terms of both must hold."""
    job = job or NodeAffinitySpec.all_defaults()
    role = role or NodeAffinitySpec.all_defaults()
    required = job.terms() or role.terms()
    if job.required is not None and role.required is not None:
        required = tuple(
            Term((*one.requirements, *other.requirements))
            for one in job.terms()
            for other in role.terms()
        )
    return NodeWish(required, (*job.preferences(), *role.preferences()), node_name or "")
