"""Kubeconfigs as kubectl reads them, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.backends.kubernetes.api.connection import environment_proxy
from mooring.backends.kubernetes.api.errors import NoAccess
from mooring.backends.kubernetes.api.kubeconfig import (
    ClusterAccess,
    ExecPlugin,
    Pem,
    contexts,
    load_access,
)

V1 = "client.authentication.k8s.io/v1"


def config(**changes: Any) -> dict[str, Any]:
    """Two contexts on two servers; the first is the current one."""
    return {
        "current-context": "a",
        "contexts": [
            {"name": "a", "context": {"cluster": "one", "user": "u", "namespace": "team"}},
            {"name": "b", "context": {"cluster": "two"}},
        ],
        "clusters": [
            {"name": "one", "cluster": {"server": "https://one:6443/"}},
            {"name": "two", "cluster": {"server": "http://two"}},
        ],
        "users": [{"name": "u", "user": {"token": "t"}}],
        **changes,
    }


def written(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def user(**about: Any) -> dict[str, Any]:
    return config(users=[{"name": "u", "user": about}])


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (None, ClusterAccess("https://one:6443", "team", "a", token="t")),
        ("b", ClusterAccess("http://two", "default", "b")),
    ],
)
def test_a_context_is_chosen(tmp_path: Path, context: str | None, expected: ClusterAccess) -> None:
    assert load_access(context, written(tmp_path / "c", config())) == expected


def test_the_first_of_several_files_that_names_something_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {"clusters": [{"name": "one", "cluster": {"server": "https://first"}}]}
    second = config(contexts=[*config()["contexts"], {"name": "c", "context": {}}])
    files = [written(tmp_path / "1", first), tmp_path / "missing", written(tmp_path / "2", second)]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))
    access = load_access()
    assert (access.server, access.context, access.token) == ("https://first", "a", "t")
    assert contexts() == ("a", "b", "c")


def test_paths_are_relative_to_the_file_that_holds_them(tmp_path: Path) -> None:
    about = {
        "client-certificate": "pki/me.crt",
        "client-key": "/abs/me.key",
        "tokenFile": "token",
        "exec": {"apiVersion": V1, "command": "./bin/plugin", "args": ["x", 1]},
    }
    document = user(**about)
    document["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    access = load_access(None, written(tmp_path / "deep" / "c", document))
    here = tmp_path / "deep"
    assert access.authority == Pem(here / "ca.crt")
    assert access.certificate == Pem(here / "pki/me.crt")
    assert access.key == Pem(Path("/abs/me.key"))
    assert access.token_file == here / "token"
    assert access.plugin == ExecPlugin(V1, (str(here / "bin/plugin"), "x", "1"))


def test_a_plugin_without_a_slash_is_looked_up_on_the_path(tmp_path: Path) -> None:
    document = user(
        exec={"apiVersion": V1, "command": "plugin", "env": [{"name": "A", "value": "b"}]}
    )
    access = load_access(None, written(tmp_path / "c", document))
    assert access.plugin == ExecPlugin(V1, ("plugin",), {"A": "b"})


def test_text_in_the_file_wins_over_a_path(tmp_path: Path) -> None:
    about = {"client-certificate": "me.crt", "client-certificate-data": "QQ=="}
    access = load_access(None, written(tmp_path / "c", user(**about)))
    assert access.certificate == Pem(data="QQ==")


BAD_SERVER = config(clusters=[{"name": "one", "cluster": {"server": "one:6443"}}])


@pytest.mark.parametrize(
    ("document", "context", "said"),
    [
        ({}, None, "{f}: current-context: found nothing, accepted: a context's name"),
        ([1], None, "{f}: current-context: found nothing, accepted: a context's name"),
        (config(), "z", "{f}: contexts: found no 'z', accepted: a, b"),
        (config(clusters=[]), None, "{f}: clusters: found no 'one', accepted: nothing is there"),
        (config(users=None), None, "{f}: users: found no 'u', accepted: nothing is there"),
        (
            BAD_SERVER,
            None,
            "{f}: clusters[one].server: found 'one:6443', accepted: an http or https URL",
        ),
        (
            user(**{"auth-provider": {"name": "gcp"}}),
            None,
            "{f}: users[u].auth-provider: no longer supported by Kubernetes; "
            "accepted: an exec plugin",
        ),
        (
            user(exec={"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "p"}),
            None,
            "{f}: users[u].exec.apiVersion: found 'client.authentication.k8s.io/v1alpha1', "
            f"accepted: {V1} or {V1}beta1",
        ),
    ],
)
def test_bad_files_are_refused_with_path_found_and_accepted(
    tmp_path: Path, document: Any, context: str | None, said: str
) -> None:
    file = written(tmp_path / "c", document)
    with pytest.raises(NoAccess) as raised:
        load_access(context, file)
    assert str(raised.value) == said.format(f=file)


@pytest.mark.parametrize("raw", [b"a: [", b"\xff\xfe", b"a: !!python/object:os.system x"])
def test_files_that_are_no_plain_yaml_are_named(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "c"
    file.write_bytes(raw)
    with pytest.raises(NoAccess, match=str(file)):
        load_access(None, file)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match=r"no kubeconfig at .*/nothing"):
        load_access(None, tmp_path / "nothing")


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://api.example:6443", "http://proxy.example:3128"),
        ("https://10.0.0.1", None),
        ("http://api.example", None),
    ],
)
def test_proxies_of_the_environment_are_used_but_for_those_it_names(
    monkeypatch: pytest.MonkeyPatch, server: str, proxy: str | None
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.1,.local")
    assert environment_proxy(server) == proxy
