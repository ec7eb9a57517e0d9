"""The audit of the lock files: what it finds, and that missing data is never good news."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

AUDIT = Path(__file__).parents[3] / "requirements" / "audit.py"
BAD = "jinja2"


class _PyPI(BaseHTTPRequestHandler):
    """Answers as PyPI does; one package has an advisory, and one that was withdrawn."""

    def do_GET(self) -> None:
        _, name, version, _ = self.path.split("/")
        known = [
            {"id": "PYSEC-1", "link": "https://x", "fixed_in": ["99"], "withdrawn": None},
            {"id": "PYSEC-2", "link": "https://x", "fixed_in": [], "withdrawn": "2026-01-01"},
        ]
        document = {"info": {"version": version}, "vulnerabilities": known if name == BAD else []}
        body = json.dumps(document).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def pypi() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _PyPI)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def audit(url: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "MOORING_AUDIT_URL": url, "no_proxy": "127.0.0.1"}
    command = [sys.executable, str(AUDIT)]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_an_advisory_is_named_with_the_version_that_has_it_fixed(pypi: str) -> None:
    answer = audit(pypi)
    assert answer.returncode == 1
    found = [line for line in answer.stdout.splitlines() if "PYSEC" in line]
    assert len(found) == 1 and found[0].startswith(f"{BAD} ") and "fixed in 99" in found[0]
    assert "1 known vulnerabilities" in answer.stdout


def test_without_data_nothing_is_said_to_be_good() -> None:
    answer = audit("http://127.0.0.1:1")
    assert answer.returncode == 3, answer.stdout
    assert answer.stdout.startswith("0 of ") and "no data about" in answer.stdout


def test_everything_that_is_installed_is_pinned(tmp_path: Path) -> None:
    sys.path.insert(0, str(AUDIT.parent))
    try:
        import audit as found
    finally:
        sys.path.remove(str(AUDIT.parent))
    assert list(found.unpinned(AUDIT.parent)) == []
    names = {one.name for one in found.packages(AUDIT.parent)}
    assert {"torch", "tensorflow-cpu", "pydantic"} <= names
    folder = tmp_path / "requirements"
    folder.mkdir()
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "Dockerfile").write_text("ARG BASE=python:3.11-slim\nFROM ${BASE}\n")
    (folder / "a.lock").write_text("x==1\ny>=2 --hash=sha256:0\n")
    (folder / "b.txt").write_text("# no\ntorch\n")
    assert len(list(found.unpinned(folder))) == 4
