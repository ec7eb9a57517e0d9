"""What `moor install` prints: resource definitions, roles, the operator's Deployment."""

from __future__ import annotations

from mooring.install.manifests import manifests, to_json, to_yaml
from mooring.install.settings import InstallSettings, parse_kube_version

__all__ = ["InstallSettings", "manifests", "parse_kube_version", "to_json", "to_yaml"]
