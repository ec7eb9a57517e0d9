"""What is done inside a TensorFlow program that knows nothing of Mooring, against real Keras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.doctor import diagnose_run
from mooring.doctor.read_run import read_run
from support.moor import Moor

pytestmark = [pytest.mark.framework, pytest.mark.slow]
ALONE = Path(__file__).parent / "keras_alone.py"
PLAIN = Path(__file__).parents[2] / "examples" / "wide-deep" / "plain.yaml"


def alone(archive: Path, **wanted: str) -> dict[str, Any]:
    env = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": f"{archive}/inside",
        "MOORING_INSIDE": json.dumps(wanted),
    }
    done = subprocess.run(
        [sys.executable, str(ALONE)], env=env, capture_output=True, text=True, check=True
    )
    assert "mooring:" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def as_written(archive: Path) -> dict[str, Any]:
    return alone(archive)


def test_rows_give_what_the_whole_table_gives(archive: Path, as_written: dict[str, Any]) -> None:
    found = alone(archive, lookups="rows")
    assert found["losses"] == pytest.approx(as_written["losses"], rel=1e-5)
    last, wanted = found["tables"][-1], as_written["tables"][-1]
    assert [one for row in last for one in row] == pytest.approx(
        [one for row in wanted for one in row], rel=1e-4, abs=1e-6
    )
    assert "ResourceGather" in found["kinds"]
    assert "ResourceGather" not in as_written["kinds"]


def test_lazy_adam_leaves_alone_what_a_batch_did_not_use(
    archive: Path, as_written: dict[str, Any]
) -> None:
    found = alone(archive, lookups="rows", optimizer="lazy")
    start, first, *_, last = found["tables"]
    # Rows 11 to 38 are never asked for; -1 is row 39.
    assert last[11:39] == start[11:39]
    assert last[39] != start[39]
    # Row 3 has a gradient in the first step only. Adam as it is written goes on moving it.
    assert last[3] == first[3] != start[3]
    assert as_written["tables"][-1][3] != as_written["tables"][1][3]
    # The first step has no history yet: there both are the same.
    assert first[3] == pytest.approx(as_written["tables"][1][3], rel=1e-4)
    assert found["losses"][1] == pytest.approx(as_written["losses"][1], rel=1e-4)
    assert "ResourceScatterSub" in found["kinds"]


@pytest.mark.parametrize("fixed", [False, True])
def test_the_tutorials_program_is_found_out_and_changed_from_outside(
    tmp_path: Path, fixed: bool
) -> None:
    moor = Moor(tmp_path / "home")
    settings = [
        "command=[python, plain.py, --rows, '100000', --steps, '80', --burst, '8']",
        "roles.worker.replicas=1",
    ]
    if fixed:
        settings.append("variables={lookups: rows, optimizer: lazy}")
    given = [word for setting in settings for word in ("--set", setting)]
    answer = moor("run", PLAIN, *given, timeout_s=300)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "mooring:" not in moor("logs", "last").stdout
    found = {one.id: one.found for one in diagnose_run(read_run(moor.only_run())).findings}
    tables = {"ps-whole-table", "ps-dense-update"}
    assert tables & set(found) == (set() if fixed else tables)
    listed = moor("variables", "last").stdout
    assert "wide_deep/embedding/embeddings" in listed
    assert ("pulled whole" in listed) is not fixed
    if not fixed:
        changes = {str(one) for id in tables for one in found[id].remedy.changes}
        assert changes == {"spec.variables.lookups: rows", "spec.variables.optimizer: lazy"}
        assert "wide_deep/embedding/embeddings" in found["ps-whole-table"].says
