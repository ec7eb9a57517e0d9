"""Where a job's members may and should run: a preset, rules between roles, node choice."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from mooring.model.cluster import Toleration
from mooring.model.labels import labels_of
from mooring.model.member import Preset, Relation, Rule
from mooring.model.topology_spread import TopologySpread
from mooring.spec.affinity import NodeAffinitySpec
from mooring.spec.base import Rejection, SpecModel, describe, rejected
from mooring.spec.fields import FilledText, RoleName, Text, Whole, YesNo

_ZONES = {"key": "zone", "operator": "In", "values": ["a", "b"]}
NODE_AFFINITY_EXAMPLE = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [_ZONES]}]
    }
}


class TolerationOperator(StrEnum):
    """How a toleration's value is compared with a taint's."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(StrEnum):
    """What a taint does to members that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationSpec(SpecModel):
    """Lets a member run on a tainted node, as in Kubernetes."""

    key: Text = Field(
        "",
        description="The taint's key. Empty, with `operator: Exists`: every taint.",
        examples=["dedicated"],
    )
    operator: TolerationOperator = Field(
        TolerationOperator.EQUAL,
        description="`Equal`: the value must be the same; `Exists`: any value will do.",
        examples=["Exists"],
    )
    value: Text = Field("", description="The taint's value.", examples=["training"])
    effect: TaintEffect | None = Field(
        None, description="The taint's effect. Not given: any effect.", examples=["NoSchedule"]
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        exists = self.operator is TolerationOperator.EXISTS
        if not self.key and not exists:
            raise rejected([Rejection("no key", "a key, or 'operator: Exists'", ("key",))])
        if self.value and exists:
            raise rejected(
                [Rejection(describe(self.value), "no value beside 'operator: Exists'", ("value",))]
            )
        return self

    def to_model(self) -> Toleration:
        effect = self.effect.value if self.effect else ""
        return Toleration(self.key, self.operator.value, self.value, effect)


class RuleSpec(SpecModel):
    """Which roles should, or must, share a node or stay off each other's."""

    relation: Relation = Field(
        description="`apart`: on different nodes; `together`: on the same node.",
        examples=["apart"],
    )
    roles: Annotated[tuple[RoleName, ...], Field(min_length=1)] = Field(
        description="The roles that the rule places.", examples=[["ps"]]
    )
    others: Annotated[tuple[RoleName, ...], Field(min_length=1)] | None = Field(
        None,
        alias="with",
        description="The roles that they are kept apart from or brought together with. "
        "Not given: the same as `roles`.",
        examples=[["worker"]],
    )
    required: YesNo = Field(
        False,
        description="true: a place that breaks the rule is refused; false: it only scores less.",
        examples=[True],
    )
    weight: Annotated[Whole, Field(ge=1, le=100)] = Field(
        50,
        description="How much a rule that is not required counts beside the others: 1 to 100.",
        examples=[50],
    )

    def to_model(self) -> Rule:
        return Rule(
            self.relation, self.roles, self.others or self.roles, self.required, self.weight
        )


class Unsatisfiable(StrEnum):
    """What becomes of a place that breaks a topology spread constraint."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpreadSpec(SpecModel):
    """Members evenly over the domains that nodes form by a label, as in Kubernetes."""

    topology_key: FilledText = Field(
        alias="topologyKey",
        description="The label whose values are the domains; `kubernetes.io/hostname`: each node "
        "is one.",
        examples=["topology.kubernetes.io/zone"],
    )
    max_skew: Annotated[Whole, Field(ge=1, le=1_000_000)] = Field(
        1,
        alias="maxSkew",
        description="How many members more than the emptiest domain another may have.",
        examples=[1],
    )
    when_unsatisfiable: Unsatisfiable = Field(
        Unsatisfiable.DO_NOT_SCHEDULE,
        alias="whenUnsatisfiable",
        description="`DoNotSchedule`: a place that breaks the constraint is refused; "
        "`ScheduleAnyway`: it only scores less.",
        examples=["ScheduleAnyway"],
    )
    roles: Annotated[tuple[RoleName, ...], Field(min_length=1)] | None = Field(
        None, description="Whose members are spread. Not given: all.", examples=[["worker"]]
    )
    match_labels: dict[FilledText, Text] = Field(
        {},
        alias="matchLabels",
        description="Running members of other jobs with all of these labels count as well. Not "
        "given: nobody else's.",
        examples=[{"team": "ranking"}],
    )

    def to_model(self) -> TopologySpread:
        return TopologySpread(
            self.topology_key,
            self.max_skew,
            self.when_unsatisfiable is Unsatisfiable.DO_NOT_SCHEDULE,
            self.roles or (),
            labels_of(self.match_labels),
        )


class PlacementSpec(SpecModel):
    """Where the members may and should run."""

    preset: Preset | None = Field(
        None,
        description="`colocate`: a parameter server on every node that has workers; `isolate`: "
        "servers and workers on disjoint nodes; `spread-ps`: servers on different nodes; `pack`: "
        "the fewest nodes; `spread`: the most nodes. Not given: `pack` for jobs that ask for "
        "GPUs, otherwise `spread`.",
        examples=["colocate"],
    )
    rules: tuple[RuleSpec, ...] = Field(
        (),
        description="Rules between roles, in addition to the preset.",
        examples=[[{"relation": "apart", "roles": ["ps"], "required": True}]],
    )
    topology_spread: tuple[TopologySpreadSpec, ...] = Field(
        (),
        alias="topologySpread",
        description="Members evenly over zones, racks or nodes.",
        examples=[[{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1}]],
    )
    node_selector: dict[FilledText, Text] = Field(
        {},
        alias="nodeSelector",
        description="Labels that a node must have to take any member of the job.",
        examples=[{"disk": "ssd"}],
    )
    node_affinity: NodeAffinitySpec | None = Field(
        None,
        alias="nodeAffinity",
        description="Which nodes may take any member of the job and which they would like.",
        examples=[NODE_AFFINITY_EXAMPLE],
    )
    node_name: FilledText | None = Field(
        None,
        alias="nodeName",
        description="The one node that every member must be on, unless its role names another.",
        examples=["gpu-0"],
    )
    tolerations: tuple[TolerationSpec, ...] = Field(
        (),
        description="Taints that every member of the job tolerates.",
        examples=[[{"key": "dedicated", "value": "training"}]],
    )
