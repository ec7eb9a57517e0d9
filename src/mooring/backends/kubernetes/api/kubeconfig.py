"""Where the API server is and who we are to it: a kubeconfig, or the pod's service account.

Follows kubectl: $KUBECONFIG may list several files, of which the first that names something wins;
relative paths are relative to the file that holds them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from mooring.backends.kubernetes.api.document import Json, Object, find, items, mapping, text
from mooring.backends.kubernetes.api.errors import NoAccess

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: v1alpha1 was removed with Kubernetes 1.24.
PLUGIN_VERSIONS = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
_MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Pem:
    """Certificate or key material: a file to read, or the text itself (base64 in the file)."""

    file: Path | None = None
    data: str = ""

    def __bool__(self) -> bool:
        return self.file is not None or bool(self.data)


@dataclass(frozen=True)
class ExecPlugin:
    """A program that prints credentials (client.authentication.k8s.io)."""

    api_version: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""


@dataclass(frozen=True)
class ClusterAccess:
    """All that a connection needs, nothing opened yet."""

    server: str
    namespace: str = "default"
    context: str = ""
    authority: Pem = Pem()
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""
    certificate: Pem = Pem()
    key: Pem = Pem()
    token: str = ""
    token_file: Path | None = None
    basic: tuple[str, str] | None = None
    plugin: ExecPlugin | None = None


def load_access(context: str | None = None, path: Path | None = None) -> ClusterAccess:
    """The access of `context`, of the current context, or of the pod that we run in."""
    files = _files(path)
    if not files and context is None and in_cluster(os.environ):
        return cluster_access(os.environ)
    if not files:
        named = path or os.environ.get("KUBECONFIG") or "~/.kube/config"
        raise NoAccess(f"no kubeconfig at {named}, and this is not a pod of a cluster")
    return _from_files(files, context)


def in_cluster(env: Mapping[str, str]) -> bool:
    return bool(env.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()


def cluster_access(env: Mapping[str, str]) -> ClusterAccess:
    host, port = env["KUBERNETES_SERVICE_HOST"], env.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = SERVICE_ACCOUNT / "namespace"
    return ClusterAccess(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        context="in-cluster",
        authority=Pem(SERVICE_ACCOUNT / "ca.crt"),
        token_file=SERVICE_ACCOUNT / "token",
    )


def contexts(path: Path | None = None) -> tuple[str, ...]:
    """The contexts that there are."""
    names = [text(item, "name") for file in _files(path) for item in items(_read(file), "contexts")]
    return tuple(dict.fromkeys(names))


def _files(path: Path | None) -> list[Path]:
    if path is not None:
        return [path] if path.is_file() else []
    listed = os.environ.get("KUBECONFIG")
    candidates = (
        [Path(one) for one in listed.split(os.pathsep) if one]
        if listed
        else [Path.home() / ".kube" / "config"]
    )
    return [candidate for candidate in candidates if candidate.is_file()]


def _read(file: Path) -> Json:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise NoAccess(f"{file}: larger than {_MOST_BYTES} bytes")
        document: Json = yaml.safe_load(file.read_text(encoding="utf-8"))
    except RecursionError:
        raise NoAccess(f"{file}: nested too deeply") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise NoAccess(f"{file}: {reason}") from error
    return document


def _from_files(files: Sequence[Path], context: str | None) -> ClusterAccess:
    documents = [(file, _read(file)) for file in files]
    name = context or next(filter(None, (text(one, "current-context") for _, one in documents)), "")
    if not name:
        raise NoAccess(f"{files[0]}: current-context: found nothing, accepted: a context's name")
    _, chosen = _named(documents, "contexts", name, "context")
    cluster_file, cluster = _named(documents, "clusters", text(chosen, "cluster"), "cluster")
    user_name = text(chosen, "user")
    user_file, user = _named(documents, "users", user_name, "user") if user_name else (files[0], {})
    server = text(cluster, "server").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise NoAccess(
            f"{cluster_file}: clusters[{text(chosen, 'cluster')}].server: found {server!r}, "
            "accepted: an http or https URL"
        )
    if mapping(user, "auth-provider"):
        raise NoAccess(
            f"{user_file}: users[{user_name}].auth-provider: no longer supported by Kubernetes; "
            "accepted: an exec plugin"
        )
    token_file = text(user, "tokenFile")
    username, password = text(user, "username"), text(user, "password")
    return ClusterAccess(
        server=server,
        namespace=text(chosen, "namespace") or "default",
        context=name,
        authority=_pem(cluster, "certificate-authority", cluster_file),
        insecure=find(cluster, "insecure-skip-tls-verify") is True,
        tls_server_name=text(cluster, "tls-server-name"),
        proxy=text(cluster, "proxy-url"),
        certificate=_pem(user, "client-certificate", user_file),
        key=_pem(user, "client-key", user_file),
        token=text(user, "token"),
        token_file=user_file.parent / token_file if token_file else None,
        basic=(username, password) if username else None,
        plugin=_plugin(mapping(user, "exec"), user_name, user_file),
    )


def _named(
    documents: Sequence[tuple[Path, Json]], section: str, name: str, key: str
) -> tuple[Path, Object]:
    known: list[str] = []
    for file, document in documents:
        for entry in items(document, section):
            if text(entry, "name") == name:
                return file, mapping(entry, key)
            known.append(text(entry, "name"))
    accepted = ", ".join(known) if known else "nothing is there"
    raise NoAccess(f"{documents[0][0]}: {section}: found no '{name}', accepted: {accepted}")


def _pem(section: Object, key: str, file: Path) -> Pem:
    data, path = text(section, f"{key}-data"), text(section, key)
    if data:
        return Pem(data=data)
    return Pem(file=file.parent / path) if path else Pem()


def _plugin(section: Object, user: str, file: Path) -> ExecPlugin | None:
    command = text(section, "command")
    if not command:
        return None
    version = text(section, "apiVersion")
    if version not in PLUGIN_VERSIONS:
        raise NoAccess(
            f"{file}: users[{user}].exec.apiVersion: found {version!r}, "
            f"accepted: {' or '.join(PLUGIN_VERSIONS)}"
        )
    if "/" in command:
        command = str(file.parent / command)
    args = find(section, "args")
    listed = args if isinstance(args, Sequence) and not isinstance(args, str) else ()
    return ExecPlugin(
        api_version=version,
        argv=(command, *(str(one) for one in listed)),
        env={text(item, "name"): text(item, "value") for item in items(section, "env")},
        hint=text(section, "installHint"),
    )
