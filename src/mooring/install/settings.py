"""What a cluster's administrator may choose about an installation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mooring.install.names import NAMESPACE
from mooring.version import VERSION as MOORING_VERSION

_KUBE_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})([.+-].*)?", re.ASCII)
#: Validation rules in CEL are on by default from this version of Kubernetes.
_CEL_SINCE = (1, 25)

KubeVersion = tuple[int, int]


def parse_kube_version(text: str) -> KubeVersion:
    """(major, minor) of `1.29`, `v1.29.3` or `v1.29.3-gke.100`. Raises ValueError."""
    match = _KUBE_VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no version such as 1.29")
    return int(match.group(1)), int(match.group(2))


@dataclass(frozen=True)
class InstallSettings:
    """`watch`: the only namespaces of jobs, none for all; `kubelet_config`: whether the operator
    may ask kubelets for their settings; `network_policy`: whether each job gets a NetworkPolicy;
    `kube_version`: of the server, None if it is not known.
    """

    namespace: str = NAMESPACE
    image: str = f"mooring:{MOORING_VERSION}"
    replicas: int = 2
    webhook: bool = True
    kubelet_config: bool = False
    volcano: bool = False
    network_policy: bool = True
    watch: tuple[str, ...] = ()
    kube_version: KubeVersion | None = None

    @property
    def cel(self) -> bool:
        return self.kube_version is not None and self.kube_version >= _CEL_SINCE
