"""The HTTP API of a real service: jobs that really run are followed, over a kill of the service."""

from __future__ import annotations

import http.client
import json
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.moor import Moor, write_job
from support.service import Service, service_in
from support.sse import events_at
from support.waiting import until

_STEPS = """import os, sys, time
print('step 1/2 loss 0.5', flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print('step 2/2 loss 0.25', flush=True)
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_in(tmp_path / "home", "--listen", "127.0.0.1:0") as service:
        yield service
    assert service.left() == []


def stepping_job(folder: Path) -> Path:
    """It takes its second step when the file `go` is there."""
    command = [sys.executable, "-S", "-c", _STEPS, str(folder / "go")]
    roles = {"worker": {"replicas": 1}}
    return write_job(folder, name="steps", framework="indexed", command=command, roles=roles)


def test_a_run_is_followed_over_a_kill_of_the_service(service: Service, tmp_path: Path) -> None:
    with events_at(service.home.socket, "/queue/events") as events:
        [job] = service.submit(stepping_job(tmp_path))
        told = {}
        for event in events:
            told[event.name] = event
            if event.name == "started":
                break
    run = told["started"].data["fields"]["run"]
    place = ""
    with events_at(service.home.socket, f"/runs/{run}/events") as events:
        for event in events:
            place = event.id or place
            if event.name == "progress" and event.data["steps"] == 1:
                break
    service.kill()
    service.start()
    (tmp_path / "go").touch()
    with events_at(service.home.socket, f"/runs/{run}/events", {"Last-Event-ID": place}) as events:
        rest = list(events)
    assert all(int(event.id) > int(place) for event in rest if event.id)
    assert [event.name for event in rest[-2:]] == ["progress", "end"]
    assert (rest[-2].data["steps"], rest[-2].data["phase"]) == (2, "Succeeded")
    last_seen = {"Last-Event-ID": told["started"].id}
    with events_at(service.home.socket, "/queue/events", last_seen) as events:
        ended = next(events)
    assert (ended.name, ended.data["job"], ended.data["fields"]["run"]) == ("ended", job, run)
    part = service.client.get(f"/runs/{run}/logs?member=worker-0&tail=1")
    assert part["lines"][0]["text"] == "step 2/2 loss 0.25"


def test_over_tcp_with_the_token(service: Service, tmp_path: Path) -> None:
    found = until(lambda: re.search(r"http://\S+:\d+", service.log.read_text()), "its address")
    url = urlsplit(found.group())
    token = service.home.token_file.read_text().strip()
    assert stat.S_IMODE(service.home.token_file.stat().st_mode) == 0o600
    for headers, status in (({}, 401), ({"Authorization": f"Bearer {token}"}, 200)):
        with closing(http.client.HTTPConnection(url.netloc, timeout=30)) as connection:
            connection.request("GET", "/api/v1/service", headers=headers)
            response = connection.getresponse()
            assert response.status == status
            if status == 200:
                assert json.loads(response.read())["tcp_url"] == found.group()
    assert token not in service.log.read_text()


@pytest.mark.parametrize("address", ["0.0.0.0:1", "8642"])
def test_an_address_of_others_is_refused(tmp_path: Path, address: str) -> None:
    answer = Moor(tmp_path / "home")("serve", "--listen", address)
    assert answer.returncode == 2
    assert "a loopback address and a port" in answer.stderr


def test_a_service_with_open_streams_ends(service: Service) -> None:
    with events_at(service.home.socket, "/queue/events") as events:
        service.stop()
        assert list(events) == []
    service.start()
