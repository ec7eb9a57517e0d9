"""The page for operators lists the metrics that there are, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from mooring.backends.kubernetes.api.connection import ApiCall
from mooring.operator.metrics import Metrics

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
_ROW = re.compile(r"^\| `(mooring_\w+)` \| (\w+) \| (.*?) \|", re.MULTILINE)


def test_the_page_lists_every_metric_with_its_type_and_labels() -> None:
    metrics = Metrics()
    metrics.call(ApiCall("GET", "pods", 200, 0.1))
    found = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        if family.type == "gauge" and family.name.endswith("_created"):
            continue
        labels = {key for sample in family.samples for key in sample.labels} - {"le"}
        name = family.name + ("_total" if family.type == "counter" else "")
        found[name] = (family.type, labels)
    told = {
        name: (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in _ROW.findall(PAGE.read_text())
    }
    assert told == found


def test_alerts_speak_of_metrics_that_there_are() -> None:
    text = Metrics().text().decode()
    named = set(re.findall(r"mooring_[a-z_]+", PAGE.read_text().partition("## Alerts")[2]))
    assert named
    for name in named:
        base = re.sub(r"_(bucket|total|sum|count)$", "", name)
        assert f"# TYPE {base} " in text or f"# TYPE {base}_total " in text, name
