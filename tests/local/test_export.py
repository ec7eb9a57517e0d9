"""`moor export` of a real run; TensorFlow reads what was written for TensorBoard."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.moor import Moor, write_job

STEPS = """
import mooring, time
for done in range(1, 31):
    mooring.step(examples=10, loss=1 / done, step=done)
    time.sleep(0.05)
"""
READS = """
import collections, json, pathlib, sys
import tensorflow as tf
[path] = pathlib.Path(sys.argv[1]).iterdir()
found = collections.defaultdict(list)
for event in tf.compat.v1.train.summary_iterator(str(path)):
    for value in event.summary.value:
        found[value.tag].append([event.step, value.simple_value])
print(json.dumps(found))
"""


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    moor = Moor(tmp_path / "home")
    (tmp_path / "train.py").write_text(STEPS)
    job = write_job(
        tmp_path,
        framework="indexed",
        command=["python", "train.py"],
        roles={"worker": {"replicas": 2}},
    )
    assert moor("run", job).returncode == 0
    return moor


def test_files_and_standard_output(moor: Moor, tmp_path: Path) -> None:
    printed = moor("export", "last", "csv")
    assert printed.stdout.startswith("time,elapsed_s,member,") and printed.stderr == ""
    for kind, name in (("csv", "run.csv"), ("prometheus", "run.prom")):
        done = moor("export", "last", kind, "-o", tmp_path / name)
        assert (done.returncode, done.stdout) == (0, "")
        assert "worker-1" in (tmp_path / name).read_text()
    assert (tmp_path / "run.csv").read_text() == printed.stdout
    refused = moor("export", "last", "tensorboard")
    assert (refused.returncode, "--output" in refused.stderr) == (2, True)
    missing = moor("export", "last", "csv", "-o", tmp_path / "no" / "folder")
    assert (missing.returncode, "Traceback" in missing.stderr) == (1, False)


@pytest.mark.framework
def test_tensorflow_reads_the_event_files(moor: Moor, tmp_path: Path) -> None:
    board = tmp_path / "board"
    assert moor("export", "last", "tensorboard", "-o", board).returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", READS, str(board / "worker-1")],
        capture_output=True,
        text=True,
        check=True,
    )
    scalars = json.loads(done.stdout)
    losses = scalars["training/loss"]
    assert losses[-1] == [30, pytest.approx(1 / 30)]
    assert all(value == pytest.approx(1 / step) for step, value in losses)
    assert {"training/examples_per_s", "use/memory_mib"} <= set(scalars)
