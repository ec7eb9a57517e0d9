"""A test bed whose maker dies without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kube.cluster import guard
from kube.cluster.bed import MEMORY

TESTS = Path(__file__).resolve().parents[1]


@contextmanager
def killed_maker(*options: str) -> Iterator[Path]:
    """The folder of a running bed; its maker gets SIGKILL at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "kube.cluster", "up", *options],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
    ) as maker:
        assert maker.stdout is not None
        try:
            told = maker.stdout.readline()
            assert told.startswith("export KUBECONFIG="), told
            yield Path(told.removeprefix("export KUBECONFIG=").strip()).parents[1]
        finally:
            maker.send_signal(signal.SIGKILL)


def left_of(bed: Path) -> list[str]:
    token = bed.name.split("-")[1]
    return guard.leftovers(token, [bed, MEMORY / guard.name_of(token)])
