"""Tokens that change: files that are read again, and real programs as credential plugins."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mooring.backends.kubernetes.api import credentials
from mooring.backends.kubernetes.api.credentials import Credentials
from mooring.backends.kubernetes.api.errors import NoAccess
from mooring.backends.kubernetes.api.kubeconfig import PLUGIN_VERSIONS, ClusterAccess, ExecPlugin

#: Prints the answer that stands in a file, and counts its calls in another.
PLUGIN = """
import json, os, pathlib, sys
here = pathlib.Path(sys.argv[1])
calls = here / "calls"
calls.write_text(calls.read_text() + os.environ["KUBERNETES_EXEC_INFO"] + "\\n" if calls.exists()
                 else os.environ["KUBERNETES_EXEC_INFO"] + "\\n")
sys.stderr.write("first line\\nlast line\\n")
print((here / "answer").read_text())
sys.exit(int(os.environ.get("CODE", "0")))
"""


def plugin(
    folder: Path, answer: object, version: str = PLUGIN_VERSIONS[0], **env: str
) -> ClusterAccess:
    (folder / "plugin.py").write_text(PLUGIN)
    (folder / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))
    argv = (sys.executable, "-I", "-S", str(folder / "plugin.py"), str(folder))
    return ClusterAccess("https://s", plugin=ExecPlugin(version, argv, env))


def calls(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def in_(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def ask(access: ClusterAccess, *refused: bool) -> list[str | None]:
    """The headers of calls one after the other; of the same connection."""

    async def all_of() -> list[str | None]:
        known = Credentials(access)
        return [await known.header(refused=each) for each in refused]

    return asyncio.run(all_of())


@pytest.mark.parametrize(
    ("access", "header"),
    [
        (ClusterAccess("https://s"), None),
        (ClusterAccess("https://s", token="t"), "Bearer t"),
        # base64 of "me:secret"
        (ClusterAccess("https://s", basic=("me", "secret")), "Basic bWU6c2VjcmV0"),
    ],
)
def test_what_never_changes(access: ClusterAccess, header: str | None) -> None:
    assert ask(access, False, True) == [header, header]


def test_a_token_file_wins_over_a_token_and_is_read_again_when_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")

    async def three() -> list[str | None]:
        known = Credentials(ClusterAccess("https://s", token="in the file", token_file=file))
        found = [await known.header()]
        file.write_text("second\n")
        found.append(await known.header())
        found.append(await known.header(refused=True))
        return found

    assert asyncio.run(three()) == ["Bearer first", "Bearer first", "Bearer second"]


def test_a_token_file_is_read_again_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_REREAD_S", 0.0)
    file = tmp_path / "token"
    file.write_text("first")

    async def two() -> list[str | None]:
        known = Credentials(ClusterAccess("https://s", token_file=file))
        found = [await known.header()]
        file.write_text("second")
        return [*found, await known.header()]

    assert asyncio.run(two()) == ["Bearer first", "Bearer second"]


def test_a_token_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match="token: No such file"):
        ask(ClusterAccess("https://s", token_file=tmp_path / "token"), False)


@pytest.mark.parametrize("version", PLUGIN_VERSIONS)
def test_a_plugin_is_asked_once_while_its_answer_is_good(tmp_path: Path, version: str) -> None:
    answer = {"apiVersion": version, "kind": "ExecCredential"}
    answer["status"] = {"token": "t", "expirationTimestamp": in_(3600)}  # type: ignore[assignment]
    access = plugin(tmp_path, answer, version)
    assert ask(access, False, False) == ["Bearer t", "Bearer t"]
    assert calls(tmp_path) == [
        {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    ]


@pytest.mark.parametrize(
    ("expires", "refused", "count"),
    [
        (None, False, 1),  # good for ever
        (None, True, 2),  # but not if the server says otherwise
        (3600, False, 1),
        (20, False, 2),  # renewed half a minute before its end
        (-5, False, 2),
    ],
)
def test_when_a_plugin_is_asked_again(
    tmp_path: Path, expires: float | None, refused: bool, count: int
) -> None:
    status = {"token": "t"} | ({} if expires is None else {"expirationTimestamp": in_(expires)})
    ask(plugin(tmp_path, {"status": status}), False, refused)
    assert len(calls(tmp_path)) == count


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("", "3", "exit code 3: last line"),
        ("not json", "0", "its output is not JSON"),
        ("[1]", "0", "status.token: found nothing, accepted: a token"),
        ({"status": {}}, "0", "status.token: found nothing, accepted: a token"),
        (
            {"status": {"clientCertificateData": "x", "clientKeyData": "y"}},
            "0",
            "status.token: found a client certificate, accepted: a token",
        ),
    ],
)
def test_plugins_that_fail_say_why(tmp_path: Path, answer: object, code: str, said: str) -> None:
    with pytest.raises(NoAccess) as raised:
        ask(plugin(tmp_path, answer, CODE=code), False)
    assert str(raised.value) == f"credential plugin {sys.executable}: {said}"


def test_a_plugin_that_is_not_installed_comes_with_its_hint() -> None:
    access = ClusterAccess(
        "https://s", plugin=ExecPlugin(PLUGIN_VERSIONS[0], ("/no/such",), {}, "get it")
    )
    with pytest.raises(NoAccess, match=r"/no/such: No such file or directory \(get it\)"):
        ask(access, False)


def test_a_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_PLUGIN_TIMEOUT_S", 0.2)
    argv = (sys.executable, "-c", "import time; time.sleep(600)")
    with pytest.raises(NoAccess, match="no answer in"):
        ask(ClusterAccess("https://s", plugin=ExecPlugin(PLUGIN_VERSIONS[0], argv)), False)
