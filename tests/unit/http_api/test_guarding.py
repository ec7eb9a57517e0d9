"""Who may come in over TCP, and who may not."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import stat
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from mooring.http_api import listening
from mooring.http_api.listening import TcpAddress, tcp_listener
from mooring.http_api.token_file import read_or_make_token
from mooring.model.errors import BadInput, RunFailed
from support.served import TOKEN, Served, new_job
from support.waiting import until

SHOWN = {"Authorization": f"Bearer {TOKEN.decode()}"}


def ask(
    api: Served,
    headers: dict[str, str],
    *,
    method: str = "GET",
    path: str = "/api/v1/service",
    body: bytes | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, text). `Host` is the address, unless it is among the headers."""
    with closing(http.client.HTTPConnection("127.0.0.1", api.tcp.port, timeout=30)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        told = {name.lower(): value for name, value in response.getheaders()}
        return response.status, told, response.read()


def test_who_shows_the_token_comes_in(api: Served) -> None:
    for host in (f"127.0.0.1:{api.tcp.port}", f"localhost:{api.tcp.port}"):
        status, headers, text = ask(api, {**SHOWN, "Host": host})
        assert status == 200, text
        assert json.loads(text)["tcp_url"] is not None
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": TOKEN.decode()},
        {"Authorization": f"Basic {TOKEN.decode()}"},
        {"Authorization": f"Bearer {TOKEN.decode()}x"},
        {"Authorization": f"Bearer {TOKEN.decode()[:-1]}"},
        {"Authorization": "Bearer \xff"},
        {"Cookie": f"token={TOKEN.decode()}"},
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/service", "/api/v1/jobs", "/api/v1/none", "/"])
def test_without_the_token_nothing_is_told(api: Served, said: dict[str, str], path: str) -> None:
    status, headers, text = ask(api, said, path=path)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert TOKEN not in text
    assert api.home.name.encode() not in text


def test_without_the_token_nothing_is_done(api: Served) -> None:
    body = json.dumps(new_job(api.home, "a")).encode()
    headers = {"Content-Type": "application/json"}
    assert ask(api, headers, method="POST", path="/api/v1/jobs", body=body)[0] == 401
    assert api.client.get("/jobs")["jobs"] == []


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.:{port}", ""],
)
def test_a_name_that_is_made_to_point_here_is_refused(api: Served, host: str) -> None:
    status, _, text = ask(api, {**SHOWN, "Host": host.format(port=api.tcp.port)})
    assert status == 403
    assert b"Host" in text


def test_two_names_are_refused(api: Served) -> None:
    host = f"127.0.0.1:{api.tcp.port}"
    with socket.create_connection(("127.0.0.1", api.tcp.port), 30) as raw:
        request = f"GET /api/v1/service HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n"
        raw.sendall(f"{request}Authorization: {SHOWN['Authorization']}\r\n\r\n".encode())
        assert re.match(rb"HTTP/1.[01] 40[03]", raw.recv(1000))


@pytest.mark.parametrize(
    "said",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_page_can_write_nothing(api: Served, said: dict[str, str]) -> None:
    body = json.dumps(new_job(api.home, "a")).encode()
    said = {name: value.format(port=api.tcp.port) for name, value in said.items()}
    headers = {**SHOWN, **said, "Content-Type": "application/json"}
    assert ask(api, headers, method="POST", path="/api/v1/jobs", body=body)[0] == 403
    assert api.client.get("/jobs")["jobs"] == []


def test_our_own_pages_may_write(api: Served) -> None:
    body = json.dumps(new_job(api.home, "a")).encode()
    own = {"Origin": api.tcp.url, "Sec-Fetch-Site": "same-origin"}
    headers = {**SHOWN, **own, "Content-Type": "application/json"}
    assert ask(api, headers, method="POST", path="/api/v1/jobs", body=body)[0] == 201


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_a_form_is_no_job(api: Served, kind: str) -> None:
    body = json.dumps(new_job(api.home, "a")).encode()
    headers = {**SHOWN, "Content-Type": kind}
    status, _, text = ask(api, headers, method="POST", path="/api/v1/jobs", body=body)
    assert status == 422
    assert json.loads(text)["problems"][0]["path"] == "Content-Type"


def test_no_other_page_is_let_in(api: Served) -> None:
    asks = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for headers in (asks, {**asks, **SHOWN}, {"Origin": api.tcp.url, **SHOWN}):
        for method in ("OPTIONS", "GET"):
            told = ask(api, headers, method=method, path="/api/v1/jobs")[1]
            assert not [name for name in told if name.startswith("access-control")]


def test_a_body_is_bounded(api: Served) -> None:
    headers = {**SHOWN, "Content-Type": "application/json"}
    body = b'{"x": "' + b"x" * (17 << 20) + b'"}'
    assert ask(api, headers, method="POST", path="/api/v1/jobs", body=body)[0] == 413


def test_who_only_connects_leaves_room_for_others(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 5)
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", api.tcp.port), 30))
            for _ in range(8)
        ]
        assert [one.recv(1) for one in idle[5:]] == [b""] * 3
        assert api.client.get("/service")["queued"] == 0

    def comes_in() -> bool:
        try:
            return ask(api, SHOWN)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    until(comes_in, "there is room again")


# -- the address


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:8642", "http://127.0.0.1:8642"),
        ("localhost:8642", "http://127.0.0.1:8642"),
        ("127.1.2.3:1", "http://127.1.2.3:1"),
        ("[::1]:8642", "http://[::1]:8642"),
    ],
)
def test_an_address_of_this_machine_alone(text: str, url: str) -> None:
    assert TcpAddress.parse(text).url == url


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0:8642",
        "[::]:8642",
        ":8642",
        "8642",
        "192.168.0.1:8642",
        "10.0.0.1:1",
        "example.com:80",
        "[::ffff:10.0.0.1]:80",
        "127.0.0.1:65536",
        "127.0.0.1",
        "127.0.0.1:x",
        "2130706433:80",
        "",
    ],
)
def test_any_other_address_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="a loopback address and a port"):
        TcpAddress.parse(text)


def test_an_address_that_is_taken_is_told() -> None:
    with (
        tcp_listener(TcpAddress("127.0.0.1", 0)) as (_, taken),
        pytest.raises(RunFailed, match=f"cannot listen on {taken.url}"),
        tcp_listener(taken),
    ):
        pass


# -- the token


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    before = os.umask(0)
    try:
        token = read_or_make_token(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) >= 32
    assert read_or_make_token(path) == token
    assert [each.name for each in tmp_path.iterdir()] == ["token"]
    assert read_or_make_token(tmp_path / "other") != token


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o601])
def test_a_token_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    read_or_make_token(path)
    path.chmod(mode)
    with pytest.raises(BadInput, match=f"mode {mode:04o}"):
        read_or_make_token(path)


@pytest.mark.parametrize("text", [b"", b"short", b"x" * 2000, b"two words " * 5, b"\xff" * 40])
def test_a_file_without_a_token_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(BadInput, match="no token"):
        read_or_make_token(path)


def test_a_link_is_no_token(tmp_path: Path) -> None:
    read_or_make_token(tmp_path / "real")
    (tmp_path / "token").symlink_to(tmp_path / "real")
    with pytest.raises(RunFailed, match="cannot keep a token"):
        read_or_make_token(tmp_path / "token")
