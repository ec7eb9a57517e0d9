"""Kubeconfig files: who speaks to which server."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import yaml

from kube.cluster.certs import Pair


def with_certificate(path: Path, server: str, authority: Path, pair: Pair) -> Path:
    user = {
        "client-certificate-data": _inline(pair.certificate),
        "client-key-data": _inline(pair.key),
    }
    return _write(path, server, authority, user)


def with_token(path: Path, server: str, authority: Path, token: str) -> Path:
    return _write(path, server, authority, {"token": token})


def _write(path: Path, server: str, authority: Path, user: dict[str, str]) -> Path:
    cluster = {"server": server, "certificate-authority-data": _inline(authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bed", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "user"}}],
        "current-context": "bed",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def _inline(file: Path) -> str:
    return b64encode(file.read_bytes()).decode()
