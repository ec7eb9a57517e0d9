"""What each preset means: the rules that it requires and the scores that it weighs.

A preset adds nothing that a rule could not say, except how the scores are weighed. The unit is a
hundredth of a member: with `spread` at 100, a preference of weight 50 gives way as soon as it
would cost one more member on a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mooring.brain.layout import ClusterLayout
from mooring.brain.more_scores import more_scores
from mooring.brain.profile import DEFAULT, EVENNESS, VOLUMES, Profile, with_always
from mooring.brain.registry import Rules, rules_of
from mooring.model.member import Duty, Gang, Preset, Relation, Rule

#: What a job's declared traffic weighs: a tenth of a member, as in the profile `full`.
TRAFFIC = 10.0


@dataclass(frozen=True)
class Recipe:
    filters: tuple[str, ...]
    scores: tuple[tuple[str, float], ...]
    required: tuple[Rule, ...]
    preferred: tuple[Rule, ...]
    fewest_nodes: bool = False
    profile: Profile = DEFAULT

    @cached_property
    def rules(self) -> Rules:
        """Worked out once: one recipe serves many boards."""
        return rules_of(self.filters, self.scores)


def recipe_for(
    gang: Gang, profile: Profile = DEFAULT, layout: ClusterLayout | None = None
) -> Recipe:
    """What the gang asks for and its preset means, on a cluster with this profile.

    `layout`: the nodes, where these may ask for something as well.
    """
    required, preferred = _rules_of_preset(gang)
    rules = required + preferred + gang.rules
    required = tuple(rule for rule in rules if rule.required)
    preferred = tuple(rule for rule in rules if not rule.required)
    relations = {rule.relation for rule in required}
    filters = with_always(
        (*profile.filters, *(relation.value for relation in Relation if relation in relations))
    )
    if any(member.volumes for member in gang.members):
        filters += VOLUMES
    weighed = profile.scores
    if gang.traffic is not None and "traffic" not in dict(weighed):
        weighed += (("traffic", TRAFFIC),)
    if any(spread.required for spread in gang.spreads):
        filters += EVENNESS
    return Recipe(
        filters=filters,
        scores=_with(weighed, _scores(gang, preferred) + more_scores(gang, layout)),
        required=required,
        preferred=preferred,
        fewest_nodes=gang.preset is Preset.PACK,
        profile=profile,
    )


def _with(
    more: tuple[tuple[str, float], ...], own: tuple[tuple[str, float], ...]
) -> tuple[tuple[str, float], ...]:
    """What both name is weighed by the sum."""
    weights = dict(own)
    for name, weight in more:
        weights[name] = weights.get(name, 0.0) + weight
    return tuple(weights.items())


def _rules_of_preset(gang: Gang) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    roles = gang.roles
    servers = tuple(role for role in roles if role in gang.server_roles)
    others = tuple(role for role in roles if role not in gang.server_roles)
    workers = tuple(role for role in others if gang.duty_of(role) is Duty.TRAINS)
    neutral = tuple(role for role in others if gang.duty_of(role) is not Duty.TRAINS)
    if not servers or not others:
        return (), ()
    if gang.preset is Preset.ISOLATE:
        return (Rule(Relation.APART, servers, others, required=True),), ()
    if gang.preset is Preset.COLOCATE:
        beside = Rule(Relation.TOGETHER, workers, servers, required=True)
        near = Rule(Relation.TOGETHER, neutral, workers or servers, weight=90)
        return (beside,) if workers else (), (near,) if neutral else ()
    return (), ()


def _scores(gang: Gang, preferred: tuple[Rule, ...]) -> tuple[tuple[str, float], ...]:
    size = len(gang.members)
    # A later score only breaks ties of an earlier one: `fine` x any count stays below one step.
    fine = 1 / (size + 1)
    even = (("spread", 100.0), ("spread-role", 60 * fine), ("room", 30 * fine))
    match gang.preset:
        case Preset.PACK:
            scores: tuple[tuple[str, float], ...] = (
                ("pack", 100.0),
                ("holds-more", 60.0),
                ("tight", 30.0),
            )
        case Preset.COLOCATE:
            scores = (("spread-role", 100.0), ("spread", 60 * fine), ("room", 30 * fine))
        case Preset.SPREAD_PS:
            scores = (("servers", 100.0 * (size + 2)), *even)
        case Preset.ISOLATE | Preset.SPREAD:
            scores = even
    scores += (("taints", 100.0),)
    if any(member.resources.gpus > 1 for member in gang.members):
        scores += (("links", 40.0),)
    if any(member.resources.gpu_share_millis for member in gang.members):
        scores += (("shares", 150.0),)
    if any(member.wish.preferred for member in gang.members):
        scores += (("affinity", 50.0),)
    relations = {rule.relation for rule in preferred}
    scores += tuple((relation.value, 1.0) for relation in Relation if relation in relations)
    # One NUMA cell before anything else that is a matter of taste.
    return (("numa", 100.0 * (size + 2) ** 2), *scores)
