"""Where the programs of Kubernetes are found on this machine.

The folder named by KUBEBUILDER_ASSETS comes first (what `setup-envtest` fills), then the cache
that `make kube` fills. They are never mixed: a controller manager of another version than its API
server is not a cluster that anybody runs. So what an envtest folder lacks is missing, and only the
tests that need it suffer.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

BUILT_VERSION = "v1.20.2"
"""The newest server whose source Debian 12 has."""

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
REAL_NODE = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "pause")
CNI_PLUGINS = ("bridge", "host-local", "loopback")
ALL = (*CONTROL_PLANE, "kubemark", *REAL_NODE)


class MissingProgram(Exception):
    """A program that is asked for and that this machine does not have."""


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mooring" / "kubernetes" / BUILT_VERSION


@dataclass(frozen=True)
class Binaries:
    """The programs of one Kubernetes version."""

    folder: Path

    def has(self, name: str) -> bool:
        return os.access(self.folder / name, os.X_OK)

    def path(self, name: str) -> Path:
        if not self.has(name):
            raise MissingProgram(f"{name} is not in {self.folder}")
        return self.folder / name

    @property
    def cni(self) -> Path:
        return self.folder / "cni"

    def missing(self, *names: str) -> list[str]:
        return [name for name in names or ALL if not self.has(name)]

    @cached_property
    def version(self) -> tuple[int, int]:
        """Major and minor of the API server: flags come and go with it."""
        said = subprocess.run(
            [self.path("kube-apiserver"), "--version"], capture_output=True, text=True, check=True
        ).stdout
        match = re.search(r"v(\d+)\.(\d+)", said)
        if match is None:
            raise MissingProgram(f"kube-apiserver says no version: {said!r}")
        return int(match[1]), int(match[2])


def find() -> Binaries:
    """The programs to use; MissingProgram says what to do when there are none."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        found = Binaries(Path(assets))
        lacking = found.missing("etcd", "kube-apiserver")
        if lacking:
            raise MissingProgram(f"KUBEBUILDER_ASSETS={assets} has no {' and no '.join(lacking)}")
        return found
    found = Binaries(cache_folder())
    if not is_complete(found):
        raise MissingProgram(
            "there is no Kubernetes for the tests: run `make kube` (Debian, about five minutes), "
            "or set KUBEBUILDER_ASSETS to a folder of setup-envtest"
        )
    return found


def is_complete(binaries: Binaries) -> bool:
    plugins = all(os.access(binaries.cni / name, os.X_OK) for name in CNI_PLUGINS)
    return plugins and not binaries.missing()
