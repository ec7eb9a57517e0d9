"""Launchers of a gang, started as containers of pods are."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from mooring.backends.kubernetes.objects.token import PROOF_HEADER, question
from mooring.backends.local.pack import build_launcher

HELLO = [sys.executable, "-c", "print('hello', flush=True); import time; time.sleep(600)"]
TOKEN = "the token of this job"


class Pods:
    """Launchers started as containers of pods are, each with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launcher = build_launcher(folder / "launcher.pyz")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, index: int, members: int, **changes: Any) -> subprocess.Popen[bytes]:
        home = self.folder / f"pod-{index}"
        home.mkdir(exist_ok=True)
        contract = {
            "version": 1,
            "run": "uid-1",
            "job": "j",
            "member": f"worker-{index}",
            "role": "worker",
            "index": index,
            "argv": HELLO,
            "cwd": "",
            "gate": "meeting",
            "meeting": {
                "host": "127.0.0.1",
                "port": self.port,
                "leads": index == 0,
                "members": members,
                "token_env": "MOORING_JOB_TOKEN",
            },
            "peers": [{"member": f"worker-{i}", "host": "127.0.0.1"} for i in range(members)],
            "files_dir": str(home / "member"),
            "echo": True,
            "log_path": str(home / "log"),
            "sample_path": str(home / "samples.jsonl"),
            **changes,
        }
        variables = {"MOORING_CONTRACT": json.dumps(contract), "MOORING_JOB_TOKEN": TOKEN}
        process = subprocess.Popen(
            [sys.executable, str(self.launcher), "pod"],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=(home / "out").open("ab"),
            stderr=(home / "err").open("ab"),
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def out(self, index: int, name: str = "out") -> str:
        path = self.folder / f"pod-{index}" / name
        return path.read_text() if path.exists() else ""

    def ready(self, index: int) -> bool:
        return '"kind":"ready"' in self.out(index, "samples.jsonl")

    def status(self, path: str = "status") -> dict[str, Any]:
        """What the leader answers; nothing is there while it does not."""
        asked = question(TOKEN, f"/{path}", time.time())
        url = f"http://127.0.0.1:{self.port}{asked.path}"
        try:
            with urllib.request.urlopen(url, timeout=10) as page:
                raw = page.read()
                assert asked.answered_by_holder(raw, page.headers[PROOF_HEADER])
        except urllib.error.URLError:
            return {"there": [], "open": False, "members": {}}
        found: dict[str, Any] = json.loads(raw)
        return found

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(30)
