"""This machine as a node: a real kubelet, containerd and runc, in namespaces of their own.

Needs root. `RealNodes` holds what all nodes of a control plane share: the bridge, the way to the
API server and the DNS server. Each node is one process tree that begins with node_init.py; it ends
whole.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import yaml

from kube.cluster import guard, images, kubeconfig, node_init
from kube.cluster.bed import BedError, need
from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.fake_nodes import remove_nodes
from kube.cluster.hollow import NO_CLOUD, is_ready
from support.waiting import until

TESTS = Path(__file__).resolve().parents[2]
CGROUPS = Path("/sys/fs/cgroup")
PARTS = ("containerd", "kubelet")


@dataclass(frozen=True)
class KubeletOptions:
    cpu_manager: str = "static"
    """`cpuManagerPolicy`: static or none."""
    reserved_millicpus: int = 500
    """Of the machine's own; the static policy keeps whole CPUs back for it."""
    config: Json | None = None
    """Further keys of KubeletConfiguration."""


STATIC = KubeletOptions()


@dataclass(frozen=True)
class RealNode:
    """A running node."""

    plane: ControlPlane
    name: str
    number: int
    folder: Path

    @property
    def address(self) -> str:
        return self.plane.network.node(self.number)

    def import_image(self, archive: Path) -> None:
        subprocess.run([*_ctr(self.plane, self.folder), archive], check=True, capture_output=True)

    def log(self, part: str) -> str:
        """Of `kubelet` or `containerd`."""
        return (self.folder / f"{part}.log").read_text(errors="replace")

    def cpuset(self, namespace: str, pod: str, container: str) -> str:
        """The CPUs that the container's control group allows, `0-1`."""
        status = self.plane.admin.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["status"]
        [id_] = [
            each["containerID"].removeprefix("containerd://")
            for each in status["containerStatuses"]
            if each["name"] == container
        ]
        [group] = [path for path in self._groups() if path.name == id_]
        effective = group / "cpuset.cpus.effective"
        return (effective if effective.exists() else group / "cpuset.cpus").read_text().strip()

    def advertise(self, resource: str, amount: int) -> None:
        """Devices that the scheduler counts, and that the kubelet knows nothing about."""
        told = {"status": {"capacity": {resource: str(amount)}}}
        self.plane.admin.patch(f"/api/v1/nodes/{self.name}/status", told)

    def wait_empty(self) -> None:
        """Until the kubelet has ended and forgotten all pods: their CPUs are free again."""

        def empty() -> bool:
            return not any(fnmatch(path.name, "pod*-*") for path in self._groups())

        until(empty, f"no pod on {self.name}", 60)

    def _groups(self) -> Iterator[Path]:
        """The control groups of the node. Some go while we look: `Path.rglob` cannot stand it."""
        for folder, _, _ in os.walk(self._cgroup):
            yield Path(folder)

    @property
    def _cgroup(self) -> Path:
        top = CGROUPS / "cpuset" if (CGROUPS / "cpuset").is_dir() else CGROUPS
        return top / guard.name_of(self.plane.bed.token) / self.name


class RealNodes:
    """The network that nodes and pods are on; nodes are started on it."""

    def __init__(self, plane: ControlPlane) -> None:
        if os.geteuid() != 0:
            raise BedError("a real node needs root")
        need("ip", "unshare", "mount", "openssl")
        self.plane = plane
        self.bridge = guard.name_of(plane.bed.token)
        self._numbers = iter(range(1, 255))
        self._archives: list[Path] = []

    def open(self) -> None:
        network, bed = self.plane.network, self.plane.bed
        _ip("link", "add", self.bridge, "type", "bridge")
        for address in (f"{network.host}/16", f"{network.api}/32", f"{network.dns}/32"):
            _ip("address", "add", address, "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        env = {**os.environ, "PYTHONPATH": str(TESTS)}
        run = [sys.executable, "-m"]
        bed.start(
            "forward", [*run, "kube.cluster.forward", network.api, "443", str(self.plane.port)], env
        )
        folder = bed.folder / "images"
        folder.mkdir()
        pause = images.pause(self.plane.programs.path("pause"))
        made = [pause, images.python(), images.mooring(folder)]
        for index, image in enumerate(made):
            self._archives.append(image.write(folder / f"{index}.tar"))
        bed.start("dns", [*run, "kube.cluster.dns", network.dns, self.plane.kubeconfig], env)

    def close(self) -> None:
        for name in ("forward", "dns"):
            self.plane.bed.stop(name)
        _ip("link", "delete", self.bridge)

    @contextmanager
    def node(
        self,
        name: str = "real",
        options: KubeletOptions = STATIC,
        archives: Sequence[Path] = (),
    ) -> Iterator[RealNode]:
        """A Ready node with the images of images.py and these archives."""
        bed, number = self.plane.bed, next(self._numbers)
        folder = bed.folder / f"node-{number}"
        folder.mkdir()
        made = RealNode(self.plane, name, number, folder)
        spec = self._prepare(made, options, archives)
        apart = ["unshare", "--mount", "--net", "--pid", "--propagation=private"]
        apart += ["--fork", "--kill-child", "--mount-proc"]
        bed.start(
            name,
            [*apart, sys.executable, node_init.__file__, str(spec)],
        )
        try:
            self._plug_in(name, number)
            self._wait_ready(made)
            yield made
        finally:
            remove_nodes(self.plane.admin, [name])
            # SIGTERM would only reach `unshare`, which waits for the node's first process.
            bed.stop(name, signal.SIGKILL)

    def _wait_ready(self, node: RealNode) -> None:
        try:
            until(lambda: self._is_ready(node.name), f"the node {node.name} Ready", 120)
        except (AssertionError, BedError) as problem:
            logs = [path for part in PARTS if (path := node.folder / f"{part}.log").exists()]
            ends = [f"--- {path.name}\n{path.read_text()[-4000:]}" for path in logs]
            raise BedError("\n".join([str(problem), *ends])) from problem

    def _is_ready(self, name: str) -> bool:
        for each in (name, "forward", "dns"):
            self.plane.bed.check(each)
        nodes = self.plane.admin.items("/api/v1/nodes", fieldSelector=f"metadata.name={name}")
        return bool(nodes) and is_ready(nodes[0])

    def _plug_in(self, name: str, number: int) -> None:
        """A cable from the bridge into the node's namespace; it goes when the namespace goes."""
        pid = self.plane.bed.pid(name)
        here = Path("/proc/self/ns/net").readlink()

        def apart() -> bool:
            self.plane.bed.check(name)
            return Path(f"/proc/{pid}/ns/net").readlink() != here

        until(apart, f"the namespaces of {name}")
        cable = guard.cable_of(self.plane.bed.token, number)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        _ip("link", "set", cable, "master", self.bridge, "up")

    def _prepare(self, node: RealNode, options: KubeletOptions, archives: Sequence[Path]) -> Path:
        """Everything that node_init.py needs, as files."""
        folder, programs = node.folder, self.plane.programs
        group = f"{guard.name_of(self.plane.bed.token)}/{node.name}"
        _make_cgroups(group)
        pair = self.plane.authority.user(f"system:node:{node.name}", ["system:nodes"])
        ca = self.plane.authority.pair.certificate
        server = f"https://{self.plane.network.api}"
        config = kubeconfig.with_certificate(folder / "kubelet.kubeconfig", server, ca, pair)
        (folder / "resolv.conf").touch()
        settings = folder / "kubelet.yaml"
        settings.write_text(yaml.safe_dump(self._kubelet_config(node, options, ca, group)))
        (folder / "net.d").mkdir()
        (folder / "net.d" / "10-bed.conf").write_text(json.dumps(self._cni(node)))
        (folder / "base.json").write_text(json.dumps(self._base_spec()))
        (folder / "containerd.toml").write_text(_containerd_config(folder, programs.cni))
        socket = folder / "containerd.sock"
        endpoint = f"unix://{socket}"
        spec = {
            "folder": str(folder),
            "bridge_address": f"{node.address}/16",
            "socket": str(socket),
            "containerd": [str(programs.path("containerd")), "-c", str(folder / "containerd.toml")],
            "images": [str(path) for path in [*self._archives, *archives]],
            "import": [str(each) for each in _ctr(self.plane, folder)],
            "kubelet": [
                str(programs.path("kubelet")),
                f"--config={settings}",
                f"--kubeconfig={config}",
                f"--hostname-override={node.name}",
                f"--node-ip={node.address}",
                *(["--container-runtime=remote"] if programs.version < (1, 27) else []),
                f"--container-runtime-endpoint={endpoint}",
                f"--image-service-endpoint={endpoint}",
                f"--root-dir={folder / 'kubelet'}",
                f"--cert-dir={folder / 'kubelet' / 'pki'}",
                "--runtime-cgroups=/",
                "--kubelet-cgroups=/",
                "-v=2",
            ],
            # containerd looks for the shim, and the shim for runc, on the path.
            "env": {**NO_CLOUD, "PATH": f"{programs.folder}:{os.environ['PATH']}"},
        }
        path = folder / "node.json"
        path.write_text(json.dumps(spec))
        return path

    def _kubelet_config(
        self, node: RealNode, options: KubeletOptions, ca: Path, group: str
    ) -> Json:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": node.address,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(ca)},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{group}",
            "enforceNodeAllocatable": ["pods"],
            "failSwapOn": False,
            "cpuManagerPolicy": options.cpu_manager,
            "cpuManagerReconcilePeriod": "1s",
            "systemReserved": {"cpu": f"{options.reserved_millicpus}m", "memory": "256Mi"},
            "makeIPTablesUtilChains": False,
            "oomScoreAdj": 0,
            "clusterDNS": [self.plane.network.dns],
            "clusterDomain": "cluster.local",
            "resolvConf": str(node.folder / "resolv.conf"),
            "serializeImagePulls": False,
            "nodeStatusUpdateFrequency": "5s",
            "evictionHard": {"memory.available": "100Mi"},
            # The images exist nowhere else: they must survive a full disk.
            "imageGCHighThresholdPercent": 100,
            **(options.config or {}),
        }

    def _cni(self, node: RealNode) -> Json:
        first, last = self.plane.network.pods(node.number)
        pods = {"subnet": self.plane.network.subnet, "rangeStart": first, "rangeEnd": last}
        return {
            "cniVersion": "0.4.0",
            "name": "bed",
            "type": "bridge",
            "bridge": "cni0",
            "ipMasq": False,
            "ipam": {"type": "host-local", "ranges": [[pods]]},
        }

    def _base_spec(self) -> Json:
        """The runtime's default for every container, with the host's files added."""
        ctr = self.plane.programs.path("ctr")
        said = subprocess.run([ctr, "oci", "spec"], check=True, capture_output=True, text=True)
        spec: Json = json.loads(said.stdout)
        for path in images.host_mounts():
            where = str(path)
            options = ["rbind", "ro", "rprivate", "nosuid", "nodev"]
            mount = {"destination": where, "source": where, "type": "bind", "options": options}
            spec["mounts"].append(mount)
        return spec


@contextmanager
def real_nodes(plane: ControlPlane) -> Iterator[RealNodes]:
    made = RealNodes(plane)
    made.open()
    try:
        yield made
    finally:
        made.close()


def _containerd_config(folder: Path, plugins: Path) -> str:
    return f"""\
version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
oom_score = 0
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{_snapshotter(folder)}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "{folder}/base.json"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/net.d"
"""


def _snapshotter(folder: Path) -> str:
    """In a container, whose files are an overlay, there can be no other one: images are copied."""
    command = ["stat", "--file-system", "--format=%T", str(folder)]
    kind = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return "native" if kind == "overlayfs" else "overlayfs"


def _ctr(plane: ControlPlane, folder: Path) -> list[str | Path]:
    address = f"--address={folder / 'containerd.sock'}"
    return [plane.programs.path("ctr"), address, "--namespace=k8s.io", "images", "import"]


def _make_cgroups(name: str) -> None:
    """The kubelet wants its root to exist in every hierarchy."""
    if (CGROUPS / "cgroup.controllers").exists():
        tops = [CGROUPS]
    else:
        tops = [top for top in CGROUPS.iterdir() if top.is_dir() and not top.is_symlink()]
    for top in tops:
        path = top
        for part in name.split("/"):
            wanted = path / "cgroup.subtree_control"
            if wanted.exists():
                available = (path / "cgroup.controllers").read_text().split()
                wanted.write_text(" ".join(f"+{each}" for each in available))
            upper, path = path, path / part
            path.mkdir(exist_ok=True)
            # Version 1: a new set of CPUs is empty, and an empty one takes no process.
            for file in ("cpuset.cpus", "cpuset.mems"):
                if top.name == "cpuset" and not (path / file).read_text().strip():
                    (path / file).write_text((upper / file).read_text())


def _ip(*arguments: str) -> None:
    answer = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise BedError(f"ip {' '.join(arguments)}: {answer.stderr.strip()}")
