"""The manifests of other operators that the importers' tests read."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parents[1] / "unit" / "importers"
MANIFESTS = sorted((HERE / "manifests").glob("*.yaml"))
