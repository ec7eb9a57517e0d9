"""Snippets that the doctor offers, each in a real program of the kind that it is offered to."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.doctor.findings.comm_bound import EXCHANGE_SNIPPET
from mooring.doctor.findings.ps_dividing import divide
from mooring.frameworks import Duty
from mooring.spec import parse_job
from mooring.variables import Maker, PartFacts

pytestmark = [pytest.mark.framework, pytest.mark.slow]
PROGRAMS = Path(__file__).parent / "snippet_programs.py"
JOB = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: tensorflow
  command: [python]
  roles: {chief: {}, ps: {replicas: 2}, worker: {}}
"""
TABLE_BYTES = 1 << 20


@pytest.mark.parametrize("maker", list(Maker), ids=lambda maker: maker.name.lower())
def test_dividing_tables(tmp_path: Path, maker: Maker) -> None:
    if maker is Maker.KERAS_2 and find_spec("tf_keras") is None:
        pytest.skip("needs tf-keras: pip install --no-deps -r requirements/keras2.txt")
    table = PartFacts("table", (65536, 4), TABLE_BYTES, 0, maker=maker, keras_layer=True)
    facts = RunFacts(
        run="run",
        job=parse_job(JOB, "job.yaml"),
        duties={"ps": Duty.SERVES},
        members=(MemberFacts("ps-0", "ps"), MemberFacts("ps-1", "ps")),
        variables=(table,),
    )
    snippet = tmp_path / "snippet.py"
    snippet.write_text(divide(facts, "divide").code)
    legacy = {"TF_USE_LEGACY_KERAS": "1"} if maker is Maker.KERAS_2 else {}
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), maker.name.lower(), str(snippet)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **legacy},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["parts 2.0", "learns 1.0"]


@pytest.mark.parametrize("style", ["plain", "amp", "accumulation", "snippet"])
def test_an_exchange_of_fewer_bytes(tmp_path: Path, style: str) -> None:
    """The hook in programs of each style, and the loop that exchanges less often."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(EXCHANGE_SNIPPET)
    done = subprocess.run(
        [sys.executable, str(PROGRAMS.with_name("exchange_programs.py")), style, str(snippet)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["learns True", "alike True"]
