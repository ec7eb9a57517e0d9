"""The end of a PyTorch program waits for gloo's threads, and for nothing else.

A package in PyTorch's place brings a thread with gloo's name: it works for a while once the
program has nothing left to do, and then says so. It is a daemon: Python alone does not wait for it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mooring.backends.local.pack import build_launcher

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

THREAD = """
import os, sys, threading, time

def rename(name):
    with open("/proc/self/task/%d/comm" % threading.get_native_id(), "w") as file:
        file.write(name)

def work(name, began):
    rename(name)
    began.set()
    until = time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    os.write(1, b"let go\\n")
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("gloo")
    inside = f"{build_launcher(folder / 'launcher.pyz')}/inside"
    package = folder / "torch" / "distributed"
    package.mkdir(parents=True)
    for name in ("torch/__init__.py", "torch/distributed/__init__.py"):
        (folder / name).write_text("")
    (package / "distributed_c10d.py").write_text(THREAD)
    return os.pathsep.join((inside, str(folder)))


def run(path: str, thread: str, inside: bool = True) -> subprocess.CompletedProcess[str]:
    program = f"""
import threading
from torch.distributed.distributed_c10d import work
began = threading.Event()
threading.Thread(target=work, args=({thread!r}, began), daemon=True).start()
began.wait()
"""
    env = {**os.environ, "PYTHONPATH": path}
    if inside:
        env["MOORING_INSIDE"] = "{}"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_a_thread_of_gloo_that_works_is_waited_for_until_it_sleeps(path: str) -> None:
    done = run(path, "pt_gloo_runloop")
    assert (done.stdout, done.stderr, done.returncode) == ("let go\n", "", 0)


def test_without_it_python_does_not_wait(path: str) -> None:
    assert run(path, "pt_gloo_runloop", inside=False).stdout == ""


def test_other_threads_are_not_waited_for(path: str) -> None:
    done = run(path, "loader")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
