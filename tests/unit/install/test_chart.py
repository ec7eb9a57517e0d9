"""The Helm chart holds what `moor install` prints, whatever is chosen.

Rendered here by a reading of the few constructs of Go templates that the chart uses.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.install import InstallSettings, manifests
from mooring.install.chart import chart
from mooring.install.manifests import objects

FOLDER = Path(__file__).parents[3] / "charts" / "mooring"
CHART = chart()


def lookup(expression: str, values: dict[str, Any]) -> Any:
    return {
        ".": values.get("."),
        "$.Release.Namespace": values["namespace"],
        **{f"$.Values.{name}": value for name, value in values.items()},
    }[expression]


def truth(test: str, values: dict[str, Any]) -> bool:
    """`if X`, `if (not X)`, `if and X (not Y) ...`"""
    words = test.removeprefix("if ").removeprefix("and ")
    parts = re.findall(r"\(not (\S+)\)|(\S+)", words)
    return all(
        not lookup(negated, values) if negated else bool(lookup(plain, values))
        for negated, plain in parts
    )


def render(text: str, values: dict[str, Any]) -> str:
    lines, result = text.splitlines(keepends=True), []
    values = dict(values)

    def block(index: int, shown: bool) -> int:
        while index < len(lines):
            line = lines[index]
            control = re.fullmatch(r"\s*\{\{- (.*) \}\}\n", line)
            if control is None:
                if shown:
                    result.append(re.sub(r"\{\{ (.*?) \}\}", lambda m: fill(m.group(1)), line))
                index += 1
            elif control.group(1) == "end":
                return index
            elif control.group(1).startswith("range "):
                first = index + 1
                for one in lookup(control.group(1).removeprefix("range "), values) or [None]:
                    values["."] = one
                    index = block(first, shown and one is not None)
                index += 1
            else:
                index = block(index + 1, shown and truth(control.group(1), values)) + 1
        return index

    def fill(expression: str) -> str:
        name, _, function = expression.partition(" | ")
        value = lookup(name, values)
        assert function in ("", "quote")
        return json.dumps(value) if function else str(value)

    block(0, True)
    return "".join(result)


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    texts = [text for path, text in CHART.items() if path.startswith("templates/")]
    return [
        document
        for text in texts
        for document in yaml.safe_load_all(render(text, values))
        if document is not None
    ]


def by_name(documents: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    keyed = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one
        for one in documents
    }
    assert len(keyed) == len(documents)
    return keyed


CHOICES = list(itertools.product(*[(True, False)] * 4, ((), ("ads",), ("ads", "b"))))


@pytest.mark.parametrize(("webhook", "kubelet", "volcano", "network", "watch"), CHOICES)
def test_the_chart_renders_to_what_the_command_prints(
    webhook: bool, kubelet: bool, volcano: bool, network: bool, watch: tuple[str, ...]
) -> None:
    settings = InstallSettings(
        "ops", "registry.example/m:7", 3, webhook, kubelet, volcano, network, watch
    )
    values = {
        "namespace": "ops",
        "image": "registry.example/m:7",
        "replicas": 3,
        "webhook": webhook,
        "kubeletConfig": kubelet,
        "volcano": volcano,
        "networkPolicy": network,
        "watch": list(watch),
    }
    assert by_name(rendered(values)) == by_name(objects(settings))


def test_the_charts_own_values_are_the_commands_defaults() -> None:
    values = yaml.safe_load(CHART["values.yaml"])
    settings = InstallSettings()
    assert values == {
        "image": settings.image,
        "replicas": settings.replicas,
        "webhook": settings.webhook,
        "kubeletConfig": settings.kubelet_config,
        "volcano": settings.volcano,
        "networkPolicy": settings.network_policy,
        "watch": list(settings.watch),
    }


def test_definitions_stand_apart_as_helm_wants_them() -> None:
    stored = [yaml.safe_load(text) for path, text in CHART.items() if path.startswith("crds/")]
    printed = [
        one for one in manifests(InstallSettings()) if one["kind"] == "CustomResourceDefinition"
    ]
    assert stored == printed


def test_the_folder_holds_the_chart_and_nothing_else() -> None:
    found = {
        str(path.relative_to(FOLDER)): path.read_text()
        for path in FOLDER.rglob("*")
        if path.is_file()
    }
    assert found == CHART
