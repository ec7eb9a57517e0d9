"""Who reaches the ports of a job without its token ends, opens, forges and fills nothing."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gangs import TOKEN, Pods
from launching import Launchers
from test_launcher_agent import TOKEN as AGENT_TOKEN
from test_launcher_agent import call, call_env, free_port, rsh, start_agent

from mooring.backends.kubernetes.objects.token import question
from mooring.launcher import proof, wire
from mooring.launcher.guest import GuestIdentity
from mooring.launcher.history import History
from support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    held = Pods(tmp_path)
    yield held
    held.close()


def rss_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def is_closed(connection: socket.socket) -> bool:
    """Has the other side closed it?"""
    try:
        return connection.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


class Visitor:
    """Speaks to a meeting by hand."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._file = self.socket.makefile("rb")

    def say(self, line: bytes | dict[str, Any]) -> None:
        raw = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.socket.sendall(raw + b"\n")

    def hear(self) -> bytes:
        """A line; nothing once the other side has closed the connection."""
        try:
            return self._file.readline()
        except ConnectionError:
            return b""

    def enter(self, token: str, member: str, *, was_open: bool = False) -> bytes:
        """What the host says to a member of this name that shows this token."""
        mine = proof.new_nonce()
        self.say({"hello": mine.hex()})
        answer = json.loads(self.hear())
        theirs = bytes.fromhex(answer["nonce"])
        me = GuestIdentity("uid-1", 0, member, 0, was_open)
        shown = proof.prove(token, proof.GUEST, mine + theirs, me.signed())
        said = {"run": "uid-1", "epoch": 0, "member": member, "attempt": 0, "open": was_open}
        self.say({**said, "proof": shown.hex()})
        return self.hear()


HOSTILE = [
    b"{}",
    b"[]",
    b"null",
    b"\xff\xfe\x00",
    b"[" * 7000,
    b'{"a":' * 1500,
    b'{"hello": []}',
    b'{"hello": "zz"}',
    b'{"run": "uid-1", "epoch": 0, "member": "worker-1", "attempt": 0, "open": true}',
    b"GET",
    b"GET \xff HTTP/1.1\r\n\r",
    b"GET /status HTTP/1.1\r\n\r",
    b"GET /history?at=nan&nonce=&proof= HTTP/1.1\r\n\r",
    b"POST / HTTP/1.1\r\n\r",
]


def test_no_word_of_a_stranger_ends_or_opens_the_meeting(pods: Pods) -> None:
    leader = pods.start(0, 2)
    until(lambda: pods.status()["there"] == ["worker-0"], "the leader holds the meeting")
    for line in HOSTILE:
        visitor = Visitor(pods.port)
        visitor.say(line)
        visitor.say(b"")
        visitor.hear()
        visitor.socket.close()
    for token in ("", "another token"):
        for name in ("worker-1", "worker-9"):
            assert Visitor(pods.port).enter(token, name, was_open=True) == b""
    assert leader.poll() is None
    assert pods.status()["there"] == ["worker-0"]
    assert not pods.status()["open"]
    pods.start(1, 2)
    until(lambda: all("hello" in pods.out(i) for i in range(2)), "both run")


def test_only_members_of_the_gang_are_let_in(pods: Pods) -> None:
    pods.start(0, 3)
    until(lambda: pods.status()["there"] == ["worker-0"], "the leader holds the meeting")
    for name in ("worker-9", "worker-00", ""):
        assert b"no such member" in Visitor(pods.port).enter(TOKEN, name)
    first, again = Visitor(pods.port), Visitor(pods.port)
    waits = threading.Thread(target=first.enter, args=(TOKEN, "worker-1"))
    waits.start()
    until(lambda: pods.status()["there"] == ["worker-0", "worker-1"], "one has come")
    threading.Thread(target=again.enter, args=(TOKEN, "worker-1"), daemon=True).start()
    # The newer connection of a member replaces the older one: twice the same is not two.
    waits.join(20)
    assert not waits.is_alive()
    assert not pods.status()["open"]
    assert pods.status()["there"] == ["worker-0", "worker-1"]


def test_what_was_overheard_is_of_no_use(pods: Pods) -> None:
    """The same words again, to a host that has made another nonce."""
    pods.start(0, 3)
    until(lambda: pods.status()["there"] == ["worker-0"], "the leader holds the meeting")
    mine = proof.new_nonce()
    heard = Visitor(pods.port)
    heard.say({"hello": mine.hex()})
    theirs = bytes.fromhex(json.loads(heard.hear())["nonce"])
    me = GuestIdentity("uid-1", 0, "worker-1", 0, False)
    shown = proof.prove(TOKEN, proof.GUEST, mine + theirs, me.signed()).hex()
    words = {"run": "uid-1", "epoch": 0, "member": "worker-1", "attempt": 0, "open": False}
    replayed = Visitor(pods.port)
    replayed.say({"hello": mine.hex()})
    replayed.hear()
    replayed.say({**words, "proof": shown})
    assert replayed.hear() == b""
    assert pods.status()["there"] == ["worker-0"]


def test_figures_are_for_those_who_hold_the_token(pods: Pods) -> None:
    pods.start(0, 1)
    until(lambda: "hello" in pods.out(0), "it runs")
    good = question(TOKEN, "/status", time.time()).path
    old = question(TOKEN, "/status", time.time() - 3600).path
    for path in (
        "/status",
        "/history",
        question("another", "/status", time.time()).path,
        good.replace("/status", "/history"),
        old,
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{pods.port}{path}", timeout=20)
        assert refused.value.code == 403
        assert b"worker-0" not in refused.value.read()
    assert pods.status()["members"]["worker-0"]


def test_strangers_cannot_fill_the_memory_or_keep_members_out(pods: Pods) -> None:
    """Hundreds of connections that say as much as they can, while the gang comes together."""
    leader = pods.start(0, 2)
    until(lambda: pods.status()["there"] == ["worker-0"], "the leader holds the meeting")
    before = rss_bytes(leader.pid)
    held = []
    for number in range(400):
        stranger = socket.create_connection(("127.0.0.1", pods.port), timeout=20)
        stranger.setblocking(False)
        held.append(stranger)
        if number % 2:
            # The others say nothing, and stay for that.
            continue
        try:
            stranger.send(b"x" * 1_000_000)
        except OSError:
            pass
    pods.start(1, 2)
    until(lambda: all("hello" in pods.out(i) for i in range(2)), "both run")
    assert rss_bytes(leader.pid) - before < 16 * 1024 * 1024
    assert open_files(leader.pid) < 100
    for stranger in held:
        stranger.close()


def test_members_come_in_through_a_flood(pods: Pods) -> None:
    """As soon as a stranger is parted with, another takes its place."""
    pods.start(0, 2)
    until(lambda: pods.status()["there"] == ["worker-0"], "the leader holds the meeting")
    over, full = threading.Event(), threading.Event()

    def flood() -> None:
        came: deque[socket.socket] = deque()
        stays = []
        while not over.wait(0.001):
            came.append(socket.create_connection(("127.0.0.1", pods.port), timeout=20))
            if len(came) > 200:
                full.set()
                oldest = came.popleft()
                if is_closed(oldest):
                    oldest.close()
                else:
                    stays.append(oldest)
        for stranger in (*came, *stays):
            stranger.close()

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        assert full.wait(20)
        pods.start(1, 2)
        until(lambda: all("hello" in pods.out(i) for i in range(2)), "both run")
    finally:
        over.set()
        flooding.join()


def test_who_says_nothing_is_parted_with(pods: Pods, launchers: Launchers, tmp_path: Path) -> None:
    """After ten seconds: the only test that waits for them."""
    port = free_port()
    start_agent(launchers, port)
    pods.start(0, 2)
    until(lambda: pods.status()["there"] == ["worker-0"], "the leader holds the meeting")
    at_meeting, at_agent = Visitor(pods.port), Visitor(port)
    assert at_meeting.hear() == b""
    heard = b""
    while data := at_agent.hear():
        heard += data
    assert heard[:1] == b"n"


def test_a_member_tells_nothing_to_an_impostor(pods: Pods) -> None:
    """Somebody who has taken the first member's address answers, and lets it in."""
    with socket.create_server(("127.0.0.1", pods.port)) as server:
        member = pods.start(1, 2)
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as heard:
            hello = json.loads(heard.readline())
            assert list(hello) == ["hello"]
            made = {"nonce": proof.new_nonce().hex(), "proof": "00" * 32}
            connection.sendall(json.dumps(made).encode() + b"\nopen\n")
            try:
                assert heard.readline() == b""
            except ConnectionError:
                pass
    assert member.poll() is None
    assert pods.out(1) == ""


def test_what_members_say_is_bounded() -> None:
    history = History()
    text = "x" * 200_000
    for number in range(1000):
        history.add("worker-0", {"kind": "variables", "text": text, "n": number}, len(text))
        history.add("worker-0", {"kind": f"made up {number}"}, 20)
    assert len(history.document()) < 40 * 1024 * 1024
    kinds = {one["kind"] for one in json.loads(history.document())["members"]["worker-0"]}
    assert len(kinds) < 100
    for number in range(1000):
        history.add("worker-1", {"kind": "sample", "n": number}, 20)
    kept = json.loads(history.document())["members"]["worker-1"]
    assert [one["n"] for one in kept] == list(range(976, 1000))


def frame(kind: bytes, payload: bytes, length: int | None = None) -> bytes:
    return struct.pack("!cI", kind, len(payload) if length is None else length) + payload


def test_strangers_cost_a_rank_agent_little(launchers: Launchers, tmp_path: Path) -> None:
    port = free_port()
    agent = start_agent(launchers, port)
    before = rss_bytes(agent.process.pid)
    held = []
    for word in (
        frame(b"h", b"", 2**31),
        frame(b"h", b"x" * 10),
        frame(b"h", b"x" * 64),
        frame(b"s", b"\x09"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"",
        b"",
    ) * 60:
        stranger = socket.create_connection(("127.0.0.1", port), timeout=20)
        held.append(stranger)
        stranger.send(word)
    for _ in range(60):
        stranger = socket.create_connection(("127.0.0.1", port), timeout=20)
        held.append(stranger)
        try:
            stranger.sendall(frame(b"r", b"x" * 1_000_000, 2**31))
        except ConnectionError:
            pass
    assert rss_bytes(agent.process.pid) - before < 16 * 1024 * 1024
    assert open_files(agent.process.pid) < 100
    done = call(launchers, call_env(launchers, tmp_path, port), ["rank-host", "echo fine"])
    assert (done.returncode, done.stdout) == (0, b"fine\n")
    assert agent.process.poll() is None
    for stranger in held:
        stranger.close()


@pytest.mark.parametrize(
    ("greeting", "command"),
    [
        ("", ""),
        ("another token", "another token"),
        (None, AGENT_TOKEN),
        (AGENT_TOKEN, "another token"),
    ],
    ids=["no token", "another token", "no greeting", "another's command"],
)
def test_no_stranger_runs_a_command(
    launchers: Launchers, tmp_path: Path, greeting: str | None, command: str
) -> None:
    """It does not ask whether the agent holds the token, as a caller of the job's own does."""
    port, ran = free_port(), tmp_path / "ran"
    start_agent(launchers, port)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
        agents = stranger.recv(1000)[struct.calcsize("!cI") :]
        mine = proof.new_nonce()
        if greeting is not None:
            stranger.sendall(frame(b"h", wire.close_hello(greeting, agents, mine)))
            stranger.recv(1000)
        body = json.dumps({"command": f"touch {ran}"}).encode()
        try:
            stranger.sendall(frame(b"r", wire.close_request(command, agents + mine, body)))
            while stranger.recv(1000):
                pass
        except ConnectionError:
            pass
    done = call(launchers, call_env(launchers, tmp_path, port), ["rank-host", "echo fine"])
    assert done.stdout == b"fine\n"
    assert not ran.exists()


def test_a_command_is_not_told_to_an_impostor(launchers: Launchers, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
        caller = subprocess.Popen(
            rsh(launchers, "rank-host", "echo my-secret-command"),
            env=call_env(launchers, tmp_path, port),
            stderr=subprocess.PIPE,
        )
        connection, _ = server.accept()
        with connection:
            connection.sendall(frame(b"n", b"n" * 32))
            hello = connection.recv(1000)
            assert hello[:1] == b"h"
            connection.sendall(frame(b"p", b"p" * 32) + frame(b"x", b"\0"))
            heard = b""
            try:
                while data := connection.recv(1000):
                    heard += data
            except ConnectionError:
                pass
    _, told = caller.communicate(timeout=30)
    assert caller.returncode == 255
    assert b"does not hold the job's token" in told
    assert b"my-secret-command" not in hello + heard
