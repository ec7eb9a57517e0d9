"""What this machine says of its devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.backends.local.machine import device_cell


@pytest.mark.parametrize(
    # -1: the firmware does not tell, which is the rule on machines with one cell.
    ("text", "cell"),
    [("1\n", 1), ("0\n", 0), ("-1\n", 0), ("what\n", 0), (None, 0)],
)
def test_the_cell_of_a_device(tmp_path: Path, text: str | None, cell: int) -> None:
    if text is not None:
        (tmp_path / "numa_node").write_text(text)
    assert device_cell(tmp_path) == cell
