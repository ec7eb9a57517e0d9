"""The doctor on real training: TensorFlow with one table whole on one of two servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.doctor import diagnose_run
from mooring.doctor.read_run import read_run
from support.moor import Moor

EXAMPLE = Path(__file__).parents[2] / "examples" / "wide-deep" / "job.yaml"
pytestmark = [pytest.mark.framework, pytest.mark.slow]


@pytest.mark.parametrize(
    ("placement", "wanted"), [("round-robin", ["ps-hot"]), ("partitioned", [])]
)
def test_where_variables_live(tmp_path: Path, placement: str, wanted: list[str]) -> None:
    moor = Moor(tmp_path / "home")
    answer = moor(
        "run", EXAMPLE, "--set", f"variables.placement={placement}",
        "--set", "command=[python, train.py, --steps, '240']", timeout_s=300,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = diagnose_run(read_run(moor.only_run())).findings
    assert [finding.id for finding in found] == wanted
    if wanted:
        [change] = found[0].found.remedy.changes
        assert str(change) == "spec.variables.placement: partitioned"
