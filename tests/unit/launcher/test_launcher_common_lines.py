"""Steps in lines as scripts print them, and lines that only look like it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.launcher.common_lines import CommonLines
from mooring.launcher.steps import Steps


@pytest.mark.parametrize(
    ("line", "step", "loss", "total"),
    [
        ("step 40 loss 0.6448", 40, "0.6448", None),
        ("Step: 40, Loss: 1.2e-3", 40, "1.2e-3", None),
        ("iter 100: loss 2.3341, time 55.10ms, mfu 12.1%", 100, "2.3341", None),
        ("[Epoch 2, batch 1999] loss: 1.284", 1999, "1.284", None),
        ("global_step=7 train_loss=0.5", 7, "0.5", None),
        ("INFO:root:Iteration 12/500 | loss = 3", 12, "3", "500"),
        ("{'step': 10, 'loss': 0.25}", 10, "0.25", None),
        ("Step [20/100], Loss: 0.3", 20, "0.3", "100"),
        ("Epoch [1/5], Step [20/100], Loss: 0.3", 20, "0.3", None),
        ("Train:  40%|████ | 40/100 [00:12<00:18, 3.3it/s, loss=0.51]", 40, "0.51", "100"),
        ("step 5 val_loss 0.9 loss 0.7", 5, "0.7", None),
    ],
)
def test_what_scripts_print(line: str, step: int, loss: str, total: str | None) -> None:
    wanted = {"step": step, "loss": loss} | ({"total": total} if total else {})
    assert CommonLines().read(line.encode()) == wanted


@pytest.mark.parametrize(
    "line",
    [
        "Step 1: download the data",
        "loss 0.5",
        "step 5 val_loss 0.9",
        "Validation loss: 0.4 after epoch 3",
        "steps per second 12.5, glossary 3",
        "step 12% loss of precision",
        "no loss of generality in step two",
        "::mooring:: {}",
        "",
    ],
)
def test_what_is_no_step(line: str) -> None:
    assert CommonLines().read(line.encode()) is None


def test_numbers_that_begin_anew_are_counted_on() -> None:
    reader = CommonLines()
    lines = [f"epoch {epoch} step {step} loss 1.0" for epoch in (0, 1) for step in (0, 50, 100)]
    read = [reader.read(line.encode()) for line in lines]
    assert [each and each["step"] for each in read] == [0, 50, 100, 100, 150, 200]


def test_a_program_that_reports_itself_is_not_guessed_about() -> None:
    written: list[dict[str, Any]] = []
    steps = Steps(lambda fields, t: written.append(fields), None, None, 1, guess=True)
    steps.take(0, [b'::mooring:: {"step": 1, "loss": 0.5}'])
    steps.take(0, [b"step 900 loss 9.0"])
    steps.flush(all_of_it=True)
    assert [(each["step"], each["loss"]) for each in written] == [(1, 0.5)]


def test_without_leave_to_guess_lines_are_lines() -> None:
    written: list[dict[str, Any]] = []
    steps = Steps(lambda fields, t: written.append(fields), None, None, 1)
    assert steps.take(0, [b"step 900 loss 9.0"]) == [b"step 900 loss 9.0"]
    steps.flush(all_of_it=True)
    assert written == []


@given(st.lists(st.sampled_from([b"step ", b"loss ", b"1", b" ", b"/", b"[", b"x", b"\xff"])))
def test_any_line_is_read_without_an_error(parts: list[bytes]) -> None:
    CommonLines().read(b"".join(parts))
