"""Profiles as users write them, and as Kubernetes' schedulers do."""

from __future__ import annotations

import pytest
from clusters import gang, members

from mooring.brain.kube_profiles import to_configuration, without_counterpart
from mooring.brain.presets import recipe_for
from mooring.brain.profile import ALWAYS, FULL, LOWEST_RATIO, Profile
from mooring.brain.profiles import read, to_document
from mooring.model.errors import BadInput
from mooring.model.topology_spread import TopologySpread
from mooring.model.volumes import Volume


def test_our_own_form() -> None:
    profile = read(
        {
            "name": "dense",
            "filters": ["apart"],
            "scores": {"most-requested": 20, "ratio": 10},
            "ratio": {"shape": [[0, 0], [100, 10]], "resources": {"cpu": 1, "gpu": 3}},
        }
    ).profile
    assert profile.filters == (*ALWAYS, "apart")
    assert profile.scores == (("most-requested", 20.0), ("ratio", 10.0))
    assert profile.shape == ((0.0, 0.0), (100.0, 10.0))
    assert profile.ratio_of == (("cpu", 1.0), ("gpu", 3.0))


@pytest.mark.parametrize(
    ("document", "path", "accepted"),
    [
        ([], "(document)", "a mapping"),
        ({"score": {}}, "score", "did you mean scores?"),
        ({"scores": {"most-requestd": 1}}, "scores.most-requestd", "did you mean most-requested?"),
        ({"scores": {"ratio": -1}}, "scores.ratio", "a number from 0"),
        ({"scores": {"ratio": True}}, "scores.ratio", "a number from 0"),
        ({"scores": {"ratio": float("nan")}}, "scores.ratio", "a number from 0"),
        ({"filters": "apart"}, "filters", "a list of names"),
        ({"filters": ["part"]}, "filters[0]", "did you mean apart?"),
        ({"ratio": {"shape": [[0, 1], [0, 2]]}}, "ratio.shape[1]", "utilisation growing"),
        ({"ratio": {"shape": [[0, 11]]}}, "ratio.shape[0][1]", "a number from 0 to 10"),
        ({"ratio": {"resources": {"disk": 1}}}, "ratio.resources.disk", "cpu, gpu, memory"),
        ({"kind": "Policy", "priorities": 3}, "priorities", "a list"),
        ({"kind": "Policy", "priorities": [{}]}, "priorities[0].name", "the name of a rule"),
    ],
)
def test_rejections_name_the_field(document: object, path: str, accepted: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(document, "p.yaml")
    (problem,) = caught.value.problems
    assert problem.path == path
    assert accepted in problem.accepted


def test_the_legacy_policy() -> None:
    reading = read(
        {
            "kind": "Policy",
            "apiVersion": "v1",
            "predicates": [{"name": "PodFitsResources"}, {"name": "CheckNodeCondition"}],
            "priorities": [
                {"name": "LeastRequestedPriority", "weight": 2},
                {
                    "name": "anything",
                    "weight": 3,
                    "argument": {
                        "requestedToCapacityRatioArguments": {
                            "shape": [
                                {"utilization": 0, "score": 0},
                                {"utilization": 100, "score": 10},
                            ],
                            "resources": [{"name": "nvidia.com/gpu", "weight": 5}],
                        }
                    },
                },
            ],
        }
    )
    assert reading.profile.scores == (("least-requested", 20.0), ("ratio", 30.0))
    assert reading.profile.shape == ((0.0, 0.0), (100.0, 10.0))
    assert reading.profile.ratio_of == (("gpu", 5.0),)
    assert reading.notes == (
        "predicates[1]: CheckNodeCondition has no counterpart and is left out",
    )


def test_the_defaults_of_a_scheduler_configuration() -> None:
    profile = read({"kind": "KubeSchedulerConfiguration"}).profile
    assert dict(profile.scores) == {
        "taints": 30.0,
        "affinity": 20.0,
        "together": 20.0,
        "apart": 20.0,
        "least-requested": 10.0,
        "balanced": 10.0,
        "images": 10.0,
        "topology-spread": 20.0,
        "host-spread": 20.0,
    }
    assert profile.shape == LOWEST_RATIO


def test_a_scheduler_configuration_comes_back_as_it_was_written() -> None:
    profile = read(
        {
            "name": "dense",
            "scores": {"ratio": 20, "balanced": 10, "affinity": 30},
            "ratio": {"shape": [[0, 0], [100, 10]], "resources": {"cpu": 1, "gpu": 3}},
        }
    ).profile
    again = read(to_configuration(profile)).profile
    assert again == profile


def test_what_is_disabled_is_gone() -> None:
    plugins = {
        "score": {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": "NodeAffinity"}, {"name": "Coscheduling", "weight": 2}],
        }
    }
    document = {
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "mine", "plugins": plugins}],
    }
    reading = read(document)
    assert reading.profile.name == "mine"
    assert reading.profile.scores == (("affinity", 10.0),)
    assert reading.notes == ("profiles[0]: Coscheduling has no counterpart and is left out",)


@pytest.mark.parametrize(
    ("priority", "plugin", "ours"),
    [
        # Version 1 of the configuration has neither SelectorSpread nor NodePreferAvoidPods.
        ("SelectorSpreadPriority", None, "selector-spread"),
        ("ServiceSpreadingPriority", None, "service-spread"),
        ("ImageLocalityPriority", "ImageLocality", "images"),
        ("NodePreferAvoidPodsPriority", None, "avoid"),
        ("EqualPriority", None, "equal"),
    ],
)
def test_scores_by_their_kubernetes_names(priority: str, plugin: str | None, ours: str) -> None:
    policy = read({"kind": "Policy", "priorities": [{"name": priority, "weight": 3}]})
    assert policy.profile.scores == ((ours, 30.0),)
    assert policy.notes == ()
    again = read(to_configuration(policy.profile)).profile.scores
    assert again == (((ours, 30.0),) if plugin else ())


def test_what_a_scheduler_configuration_cannot_say_is_named() -> None:
    scores = (("tight", 5.0), ("ratio", 10.0), ("balanced", 10.0), ("most-requested", 1.0))
    found = dict(without_counterpart(Profile("mine", scores=scores)))
    assert list(found) == ["tight", "most-requested"]
    assert "no such rule" in found["tight"]
    assert "ratio is kept" in found["most-requested"]
    written = read(to_configuration(Profile("mine", scores=scores))).profile
    assert {name for name, _ in written.scores} == {"ratio", "balanced"}


def test_the_own_form_reads_back_as_the_same_profile() -> None:
    for profile in (FULL, Profile("plain"), Profile("x", scores=(("ratio", 1.5),))):
        assert read(to_document(profile)).profile == profile


def test_even_spreading_by_its_kubernetes_names() -> None:
    document = {
        "kind": "Policy",
        "predicates": [{"name": "EvenPodsSpread"}],
        "priorities": [{"name": "EvenPodsSpreadPriority", "weight": 2}],
    }
    reading = read(document)
    assert reading.profile.scores == (("topology-spread", 20.0), ("host-spread", 20.0))
    again = read(to_configuration(reading.profile)).profile.scores
    assert again == reading.profile.scores


@pytest.mark.parametrize(
    ("predicate", "plugin", "ours"),
    [
        ("NoVolumeZoneConflict", "VolumeZone", "volume-zone"),
        ("NoDiskConflict", "VolumeRestrictions", "disks"),
        ("CheckVolumeBinding", "VolumeBinding", "volume-binding"),
        ("MaxCSIVolumeCountPred", "NodeVolumeLimits", "volume-count"),
        ("EvenPodsSpread", "PodTopologySpread", "topology-spread"),
        ("MatchInterPodAffinity", "InterPodAffinity", "together"),
    ],
)
def test_filters_by_their_kubernetes_names(predicate: str, plugin: str, ours: str) -> None:
    """Those about volumes and evenness hold for every gang that has them, and for no other."""
    uses_all = gang(
        "spread",
        members("worker", 1, volumes=(Volume("data"),)),
        spreads=(TopologySpread("zone"),),
    )
    policy = read({"kind": "Policy", "predicates": [{"name": predicate}]})
    assert ours in recipe_for(uses_all, policy.profile).filters
    assert policy.notes == ()
    plugins = {"filter": {"enabled": [{"name": plugin}]}}
    configuration = read({"kind": "KubeSchedulerConfiguration", "profiles": [{"plugins": plugins}]})
    assert ours in recipe_for(uses_all, configuration.profile).filters
    assert configuration.notes == ()
    plain = recipe_for(gang("spread", members("worker", 1)), policy.profile).filters
    assert not {"disks", "volume-binding", "topology-spread"} & set(plain)
