"""Frames of real interpreters, read from outside, against what the programs say themselves."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.launcher import frames, line_tables

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

_PROGRAM = """\
import json, sys, threading, traceback

def shown(frame):
    return [[s.name, s.lineno] for s in reversed(traceback.extract_stack(frame))]

class Model:
    def fit(self, depth):
        if depth:
            return self.fit(
                depth - 1
            )
        said = [shown(sys._getframe())[1:]]; print(json.dumps(said), flush=True)
        while True:
            pass

def idle(ready):
    names = [
        ready.set() or threading.Event().wait()
        for _ in range(1)
    ]

def batches():
    yield from (Model().fit(3) for _ in range(1))

ready = threading.Event()
threading.Thread(target=idle, args=(ready,), daemon=True).start()
ready.wait()
for _ in batches():
    pass
"""


def _pythons() -> list[str]:
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(8, 14):
        version = f"3.{minor}"
        beside = sorted(root.glob(f"{version}.*/bin/python")) if root.is_dir() else []
        path = str(beside[-1]) if beside else shutil.which(f"python{version}")
        if path:
            found.setdefault(version, path)
    return sorted(found.values())


@contextmanager
def _running(python: str, folder: Path) -> Iterator[tuple[int, list[list[object]]]]:
    program = folder / "thing.py"
    program.write_text(_PROGRAM)
    process = subprocess.Popen([python, str(program)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process.pid, json.loads(process.stdout.readline())[0]
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("python", _pythons())
def test_frames_are_those_that_the_program_tells(python: str, tmp_path: Path) -> None:
    with _running(python, tmp_path) as (pid, outer):
        reader = frames.Reader(pid)
        threads = reader.threads()
        stack = reader.stack(threads[pid])
        others = [reader.stack(state) for tid, state in threads.items() if tid != pid]
        reader.close()
    assert [frame.file for frame in stack] == [str(tmp_path / "thing.py")] * len(stack)
    assert stack[0].function.endswith("fit")
    assert stack[0].line in (12, 13, 14)
    told = [(frame.function.rpartition(".")[2], frame.line) for frame in stack[1:]]
    assert told == [tuple(one) for one in outer]
    assert len(others) == 1
    own = [one for one in others[0] if one.file.endswith("thing.py")]
    # A comprehension is a function of its own before 3.12.
    assert own[0].line == 18
    assert own[-1].function == "idle"
    assert "wait" in others[0][0].function


def test_a_process_that_is_no_python_has_no_frames() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        reader = frames.Reader(process.pid)
        assert reader.runtime is None
        assert reader.threads() == {}
        assert reader.stack(4096) == []
        reader.close()
    finally:
        process.kill()
        process.wait()


def test_a_process_that_has_ended_gives_no_frames_and_no_error(tmp_path: Path) -> None:
    with _running(sys.executable, tmp_path) as (pid, _):
        reader = frames.Reader(pid)
        state = reader.threads()[pid]
    assert reader.stack(state) == []
    assert reader.threads() == {}
    reader.close()


def test_memory_that_makes_no_sense_gives_no_error(tmp_path: Path) -> None:
    """Any address may be taken for a thread's state or a code object: fewer frames, no more."""
    chance = random.Random(7)
    with _running(sys.executable, tmp_path) as (pid, _):
        reader = frames.Reader(pid)
        state = reader.threads()[pid]
        for _ in range(2000):
            address = state + 8 * chance.randrange(-4096, 4096)
            for frame in reader.stack(address):
                assert len(frame.file) <= 1024
        reader.close()


def test_a_stack_in_change_is_read_without_an_error(tmp_path: Path) -> None:
    program = tmp_path / "busy.py"
    program.write_text(
        "def f(n):\n    return f(n - 1) if n else [g() for _ in range(2)]\n"
        "def g():\n    return sum(i for i in range(5))\n"
        "print(1, flush=True)\nwhile True:\n    f(20)\n"
    )
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        reader = frames.Reader(process.pid)
        whole = 0
        for _ in range(400):
            stack = reader.stack(reader.threads().get(process.pid, 0))
            assert all(frame.file == str(program) for frame in stack)
            whole += bool(stack) and stack[-1].function == "<module>"
        reader.close()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert whole > 200, "most looks see the whole stack"


@pytest.mark.parametrize("minor", range(8, 14))
def test_line_tables_of_chance_end(minor: int) -> None:
    chance = random.Random(minor)
    for _ in range(300):
        table = chance.randbytes(chance.randrange(60))
        line_tables.line_of(minor, table, 1, chance.randrange(-2, 100))


def test_line_table_of_this_python_agrees_with_its_own() -> None:
    code = test_frames_are_those_that_the_program_tells.__code__
    minor = sys.version_info.minor
    for start, _, line in code.co_lines():
        if line is not None:
            told = line_tables.line_of(minor, code.co_linetable, code.co_firstlineno, start // 2)
            assert told == line
