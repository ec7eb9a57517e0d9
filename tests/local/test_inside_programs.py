"""Programs as people write them print the same and end the same with Mooring inside as without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.framework, pytest.mark.slow]
PROGRAMS = Path(__file__).parent / "public_programs.py"
_MARK = "::mooring:: "
#: Group -> who made variables on servers, and what kind of program it is.
KINDS: dict[str, tuple[set[str], set[str]]] = {
    "servers": ({"tensorflow", "keras-3"}, {"keras-3"}),
    "alone": (set(), set()),
    "sessions": (set(), set()),
    # What its optimizer keeps is no layer's.
    "legacy": ({"tensorflow", "keras-2"}, {"keras-2"}),
}


def run(group: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
    legacy = {"TF_USE_LEGACY_KERAS": "1"} if group == "legacy" else {}
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS), group],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **legacy, **env},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("group", list(KINDS))
def test_a_program_does_not_notice(archive: Path, group: str) -> None:
    if group == "legacy" and find_spec("tf_keras") is None:
        pytest.skip("needs tf-keras: pip install --no-deps -r requirements/keras2.txt")
    inside = {
        "PYTHONPATH": f"{archive}/inside",
        "MOORING_INSIDE": "{}",
        "MOORING_MEMBER": "chief-0",
    }
    programs = [run(group, {}), run(group, inside)]
    (alone, _), (watched, _) = [program.communicate(timeout=400) for program in programs]
    assert [program.returncode for program in programs] == [0, 0]
    printed, told = divided(watched)
    assert printed == alone.splitlines() != []
    notes = [one["program"]["note"] for one in told if "note" in one.get("program", {})]
    assert notes == []
    makers = {part["maker"] for one in told for part in one.get("variables", []) if "maker" in part}
    traits = {one["program"]["trait"] for one in told if "trait" in one.get("program", {})}
    assert (makers, traits) == KINDS[group]


def divided(output: str) -> tuple[list[str], list[dict[str, Any]]]:
    """What the program printed, and what was told to the launcher."""
    lines = output.splitlines()
    return (
        [line for line in lines if not line.startswith(_MARK)],
        [json.loads(line[len(_MARK) :]) for line in lines if line.startswith(_MARK)],
    )
