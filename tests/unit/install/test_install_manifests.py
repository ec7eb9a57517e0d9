"""What `moor install` prints: least privilege, restricted pods, an order that can be applied."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.install import install
from mooring.cli.operator import operator
from mooring.install import InstallSettings, manifests, parse_kube_version, to_json, to_yaml
from mooring.model.errors import BadInput
from support.pod_security import breaches

EVERYTHING = InstallSettings(
    kubelet_config=True, volcano=True, watch=("research", "ads"), kube_version=(1, 29)
)
ALL_SETTINGS = [InstallSettings(), InstallSettings(webhook=False, replicas=1), EVERYTHING]


def of_kind(documents: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [one for one in documents if one["kind"] in kinds]


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_no_role_has_a_wildcard_reads_secrets_or_runs_things_in_pods(
    settings: InstallSettings,
) -> None:
    roles = of_kind(manifests(settings), "Role", "ClusterRole")
    assert roles
    for rule in [rule for role in roles for rule in role["rules"]]:
        for values in rule.values():
            assert values and not any("*" in value for value in values)
        assert not {"configmaps", "pods/exec", "pods/attach", "pods/log"} & set(rule["resources"])
        # It makes tokens and never reads one; its own key is the only Secret that it reads.
        mine = rule.get("resourceNames") == ["mooring-operator-key"]
        verbs = ["get"] if mine else ["create"]
        assert "secrets" not in rule["resources"] or rule["verbs"] == verbs
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        assert "rbac.authorization.k8s.io" not in rule["apiGroups"]


def test_writing_is_bound_to_the_watched_namespace() -> None:
    """Of what has a namespace, the cluster's role then only reads."""
    documents = manifests(EVERYTHING)
    cluster = next(
        role for role in of_kind(documents, "ClusterRole")
        if role["metadata"]["name"] == "mooring-operator"
    )  # fmt: skip
    for rule in cluster["rules"]:
        if set(rule["resources"]) & {"pods", "services", "events", "trainingjobs"}:
            assert set(rule["verbs"]) <= {"get", "list", "watch"}
    places = [role["metadata"]["namespace"] for role in of_kind(documents, "Role")]
    assert places == ["research", "ads", "mooring-system"]


def test_optional_rights_are_granted_only_on_request() -> None:
    resources = {
        resource
        for role in of_kind(manifests(InstallSettings(webhook=False)), "Role", "ClusterRole")
        for rule in role["rules"]
        for resource in rule["resources"]
    }
    assert not resources & {"nodes/proxy", "podgroups", "validatingwebhookconfigurations"}


def test_what_can_be_restricted_by_name_is() -> None:
    rules = [
        rule
        for role in of_kind(manifests(InstallSettings()), "Role", "ClusterRole")
        for rule in role["rules"]
    ]
    for rule in rules:
        if set(rule["resources"]) & {"validatingwebhookconfigurations", "priorityclasses"}:
            assert rule["resourceNames"]
        if rule["resources"] == ["leases"]:
            assert rule["verbs"] == ["create"] or rule["resourceNames"] == ["mooring-operator"]


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_the_operators_pods_conform_to_restricted(settings: InstallSettings) -> None:
    (deployment,) = of_kind(manifests(settings), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert breaches(pod) == []
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert deployment["spec"]["replicas"] == settings.replicas


def test_the_checker_itself_finds_breaches() -> None:
    bad = {
        "hostNetwork": True,
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "containers": [{"name": "c", "securityContext": {"privileged": True}}],
    }
    assert breaches(bad) == [
        "hostNetwork",
        "volume v: hostPath",
        "c: privileged",
        "c: allowPrivilegeEscalation",
        "c: capabilities are not dropped",
        "c: runAsNonRoot",
        "c: seccompProfile",
    ]


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_everything_comes_after_what_it_refers_to(settings: InstallSettings) -> None:
    documents = manifests(settings)
    keys = [
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        for one in documents
    ]
    assert len(set(keys)) == len(keys)
    for index, document in enumerate(documents):
        before = {(kind, name) for kind, _, name in keys[:index]}
        namespace = document["metadata"].get("namespace")
        if namespace == settings.namespace:
            assert ("Namespace", namespace) in before
        if "roleRef" in document:
            assert (document["roleRef"]["kind"], document["roleRef"]["name"]) in before
            assert ("ServiceAccount", document["subjects"][0]["name"]) in before
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]["spec"]
            assert ("PriorityClass", pod["priorityClassName"]) in before
            assert ("ServiceAccount", pod["serviceAccountName"]) in before


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_the_operator_understands_what_the_deployment_tells_it(settings: InstallSettings) -> None:
    (deployment,) = of_kind(manifests(settings), "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["moor", "operator"]
    told = operator.make_context("operator", list(container["args"])).params
    assert told["leader_elect"] is True
    assert (told["operator_namespace"], told["image"]) == (settings.namespace, settings.image)
    assert told["namespaces"] == settings.watch
    assert bool(told["webhook_port"]) == settings.webhook
    served = {"/healthz": "livenessProbe", "/readyz": "readinessProbe"}
    for path, probe in served.items():
        assert container[probe]["httpGet"]["path"] == path
        assert container[probe]["httpGet"]["port"] == told["metrics_port"]


def test_services_select_the_operators_pods_and_reach_its_ports() -> None:
    documents = manifests(InstallSettings())
    (deployment,) = of_kind(documents, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    ports = {port["containerPort"] for port in container["ports"]}
    services = of_kind(documents, "Service")
    assert len(services) == 2
    for service in services:
        assert service["spec"]["selector"].items() <= labels.items()
        assert service["spec"]["ports"][0]["targetPort"] in ports
    (webhook,) = of_kind(documents, "ValidatingWebhookConfiguration")
    client = webhook["webhooks"][0]["clientConfig"]
    assert client["service"]["name"] in {one["metadata"]["name"] for one in services}
    assert webhook["webhooks"][0]["failurePolicy"] == "Ignore"


def test_without_the_webhook_nothing_of_it_is_left() -> None:
    text = to_yaml(manifests(InstallSettings(webhook=False)))
    assert "webhookconfiguration" not in text.lower()
    assert "mooring-webhook" not in text
    assert "--webhook-port=0" in text


def test_both_forms_hold_the_same() -> None:
    documents = manifests(EVERYTHING)
    assert list(yaml.safe_load_all(to_yaml(documents))) == documents
    assert json.loads(to_json(documents))["items"] == documents


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.29", (1, 29)), ("v1.20.2", (1, 20)), ("v1.31.4-gke.12", (1, 31)), ("1.27+", (1, 27))],
)
def test_versions_of_servers(text: str, version: tuple[int, int]) -> None:
    assert parse_kube_version(text) == version


@pytest.mark.parametrize("text", ["", "1", "one", "1.x", "1.29;rm", "9999.1"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="no version"):
        parse_kube_version(text)


def run(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(install, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return list(yaml.safe_load_all(result.output))


def test_the_command_hands_on_what_it_is_told() -> None:
    documents = run(
        "--namespace", "ops", "--image", "registry.example/mooring:7", "--replicas", "3",
        "--watch", "ads", "--watch", "b", "--watch", "ads",
        "--without", "webhook", "--with", "volcano", "--kube-version", "1.30",
    )  # fmt: skip
    settings = InstallSettings(
        "ops", "registry.example/mooring:7", 3, False, False, True, watch=("ads", "b")
    )
    assert documents[1:] == manifests(settings)[1:]
    assert "x-kubernetes-validations" in str(documents[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--namespace", "No_Such"], "a namespace"),
        (["--watch", ""], "a namespace"),
        (["--image", "a b"], "an image"),
        (["--kube-version", "new"], "a version"),
    ],
)
def test_bad_options_are_refused_in_words(arguments: list[str], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        CliRunner().invoke(install, arguments, catch_exceptions=False)
