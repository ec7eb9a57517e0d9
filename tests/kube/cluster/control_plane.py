"""A real etcd, API server, controller manager and scheduler on loopback.

Authorization by RBAC and the default admission plugins are on, and every request is in the audit
log. Each component can be stopped, killed, frozen and started again, on the same ports and data.
"""

from __future__ import annotations

import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kube.cluster import audit, binaries, kubeconfig
from kube.cluster.bed import Bed, BedError, free_ports, need
from kube.cluster.binaries import Binaries
from kube.cluster.certs import Authority
from kube.cluster.client import ApiError, Client
from kube.cluster.network import Network
from support.waiting import until

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True)
class Options:
    """What a test may want different: flags are added to the component's own."""

    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Component → further flags."""
    node_grace_s: int | None = None
    """Silence after which a node is NotReady. None: never, so that fake nodes stay Ready."""
    client_qps: int = 5000
    """Rate limit of scheduler and controller manager: their defaults are for shared clusters."""


DEFAULTS = Options()


class ControlPlane:
    """Made by `control_plane()`, below."""

    def __init__(self, bed: Bed, programs: Binaries, options: Options) -> None:
        self.bed, self.programs, self.options = bed, programs, options
        self.network = Network.choose(bed.token)
        self.authority = Authority.create(bed.folder / "pki")
        self._etcd_port, self._peer_port, self.port = free_ports(3)
        self.server = f"https://127.0.0.1:{self.port}"
        self.audit = audit.AuditLog(bed.folder / "audit.log")
        self.kubeconfig = self.kubeconfig_for_user("admin", ["system:masters"])
        self._commands = self._all_commands()

    # Users

    def kubeconfig_for_user(self, name: str, groups: Sequence[str] = ()) -> Path:
        """A user by client certificate. Without a binding of yours it may do nothing."""
        pair = self.authority.user(name, groups)
        return kubeconfig.with_certificate(self._new_kubeconfig(), self.server, self._ca, pair)

    def kubeconfig_for_token(self, token: str) -> Path:
        return kubeconfig.with_token(self._new_kubeconfig(), self.server, self._ca, token)

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """As a pod with this ServiceAccount would speak."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return self.kubeconfig_for_token(self.admin.create(path, request)["status"]["token"])

    @cached_property
    def admin(self) -> Client:
        return Client(self.kubeconfig)

    def client(self, config: Path) -> Client:
        return Client(config)

    def kubectl(
        self, *arguments: str, stdin: str | None = None, config: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                self.programs.path("kubectl"),
                f"--kubeconfig={config or self.kubeconfig}",
                # Its default is kept by address: that of another cluster, once a port comes again.
                f"--cache-dir={self.bed.folder / 'kubectl-cache'}",
                *arguments,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    # Namespaces

    def create_namespace(self, prefix: str = "test", **labels: str) -> str:
        """A fresh namespace in which pods are accepted."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        body = {"metadata": {"name": name, "labels": labels}}
        self.admin.create("/api/v1/namespaces", body)
        self.wait_for_pods_accepted(name)
        return name

    def delete_namespace(self, name: str) -> None:
        """Its pods go at once, also those on nodes without a kubelet, and so do its jobs: the
        namespace controller learns of new kinds only by and by, and other tests look at the
        whole cluster."""
        self.admin.delete(f"/apis/mooring.dev/v1/namespaces/{name}/trainingjobs", missing_ok=True)
        self.admin.delete(f"/api/v1/namespaces/{name}/pods", grace_s=0)
        self.admin.delete(f"/api/v1/namespaces/{name}", missing_ok=True)

    def wait_for_pods_accepted(self, namespace: str) -> None:
        """Admission refuses pods until the controllers have made the default ServiceAccount; right
        after a start even the namespace may not be there yet."""
        container = {"name": "probe", "image": "probe"}
        pod = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}

        def accepted() -> bool:
            self.check()
            try:
                self.admin.create(f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
            except ApiError as error:
                if error.status not in (403, 404, 500):
                    raise
                return False
            return True

        until(accepted, f"pods accepted in {namespace}", 60)

    # Components

    def start(self, component: str) -> None:
        self.bed.start(component, self._commands[component])

    def stop(self, component: str) -> None:
        self.bed.stop(component)

    def kill(self, component: str) -> None:
        self.bed.stop(component, signal.SIGKILL)

    def freeze(self, component: str) -> None:
        self.bed.signal(component, signal.SIGSTOP)

    def thaw(self, component: str) -> None:
        self.bed.signal(component, signal.SIGCONT)

    def restart(self, component: str) -> None:
        """Stopped and started; returns when the API server is ready again."""
        self.stop(component)
        self.start(component)
        self.wait_ready()

    def wait_ready(self) -> None:
        def ready() -> bool:
            self.check("etcd", "kube-apiserver")
            try:
                return self.admin.text("/readyz") == "ok"
            except (OSError, ApiError):
                return False

        until(ready, "the API server is ready", 90)

    def check(self, *components: str) -> None:
        """Raises, with the end of its log, when one has ended by itself."""
        for component in components or self._commands:
            self.bed.check(component)

    @property
    def components(self) -> list[str]:
        """Those that run: an envtest folder has no scheduler and no controller manager."""
        return list(self._commands)

    def start_all(self) -> None:
        need("openssl")
        for component in ("etcd", "kube-apiserver"):
            self.start(component)
        self.wait_ready()
        for component in self.components[2:]:
            self.start(component)
        self.wait_for_pods_accepted("default")

    def _all_commands(self) -> dict[str, list[str | Path]]:
        made = {
            "etcd": self._etcd(),
            "kube-apiserver": self._apiserver(),
            "kube-controller-manager": self._controller_manager(),
            "kube-scheduler": self._scheduler(),
        }
        return {
            name: [self.programs.path(name), *flags, *self.options.flags.get(name, ())]
            for name, flags in made.items()
            if self.programs.has(name)
        }

    def _etcd(self) -> list[str]:
        client = f"http://127.0.0.1:{self._etcd_port}"
        return [
            f"--data-dir={self.bed.memory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls=http://127.0.0.1:{self._peer_port}",
            "--logger=zap",
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str]:
        serving = self.authority.server(
            "kube-apiserver",
            ["127.0.0.1", self.network.api],
            ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"],
        )
        to_kubelets = self.authority.user("kube-apiserver", ["system:masters"])
        accounts = self.authority.service_accounts
        policy = audit.write_policy(self.bed.folder / "audit-policy.yaml")
        flags = [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            # Nobody needs the address in the `kubernetes` Endpoints, and loopback is refused there.
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={self.network.services}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self._ca}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts.certificate}",
            f"--service-account-signing-key-file={accounts.key}",
            f"--kubelet-client-certificate={to_kubelets.certificate}",
            f"--kubelet-client-key={to_kubelets.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            # Namespaces with hundreds of pods are deleted between tests.
            "--delete-collection-workers=8",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit.path}",
        ]
        if self.programs.version < (1, 24):
            flags.append("--insecure-port=0")
        if not self.programs.has("kube-controller-manager"):
            # Nobody makes the accounts that this plugin asks for.
            flags.append("--disable-admission-plugins=ServiceAccount")
        return flags

    def _controller_manager(self) -> list[str]:
        grace_s = self.options.node_grace_s
        ca = self.authority.pair
        return [
            *self._of_client("kube-controller-manager"),
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.authority.service_accounts.key}",
            f"--root-ca-file={self._ca}",
            f"--cluster-signing-cert-file={ca.certificate}",
            f"--cluster-signing-key-file={ca.key}",
            f"--node-monitor-grace-period={'87600h' if grace_s is None else f'{grace_s}s'}",
        ]

    def _scheduler(self) -> list[str]:
        return self._of_client("kube-scheduler")

    def _of_client(self, name: str) -> list[str]:
        config = self.kubeconfig_for_user(f"system:{name}")
        return [
            f"--kubeconfig={config}",
            "--leader-elect=false",
            "--secure-port=0",
            *(["--port=0"] if self.programs.version < (1, 23) else []),
            f"--kube-api-qps={self.options.client_qps}",
            f"--kube-api-burst={self.options.client_qps}",
        ]

    @property
    def _ca(self) -> Path:
        return self.authority.pair.certificate

    def _new_kubeconfig(self) -> Path:
        return self.bed.folder / "kubeconfigs" / f"{secrets.token_hex(6)}.yaml"


@contextmanager
def control_plane(options: Options = DEFAULTS) -> Iterator[ControlPlane]:
    """One control plane, ready for pods; nothing is left of it afterwards."""
    programs = binaries.find()
    bed = Bed()
    try:
        made = ControlPlane(bed, programs, options)
        try:
            made.start_all()
        except AssertionError as problem:
            logs = [name for name in COMPONENTS if bed.log(name).exists()]
            ends = [f"--- {name}\n{bed.log_end(name)}" for name in logs]
            raise BedError("\n".join([str(problem), *ends])) from problem
        yield made
    finally:
        bed.close()
