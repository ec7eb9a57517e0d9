"""When the check of a late end speaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import check_run, member, run

from mooring.doctor.facts import EndFacts
from mooring.doctor.registry import Unknown

WAITED = "chief-0 waited for {} s between its last step and the end"
SILENT = "chief-0 said nothing for {} s between its last step and the end"


@pytest.mark.parametrize(
    ("after_s", "silent_s", "runnable", "said", "weight"),
    [
        (5.0, 5.0, 0.0, None, 0.0),
        # 30 of 60 s without computing: a half is lost.
        (30.0, 30.0, 0.1, WAITED.format(30), 0.5),
        (30.0, None, 0.1, WAITED.format(30), 0.5),
        # It evaluated, said so, and then sat still for 12 s.
        (30.0, 12.0, 0.1, WAITED.format(12), 0.2),
        (30.0, 2.0, 0.1, None, 0.0),
        # It computes, or wants to on a full machine: an evaluation, perhaps on purpose.
        (30.0, 30.0, 0.9, None, 0.0),
        (36.0, 36.0, 0.9, SILENT.format(36), 0.18),
        (36.0, 36.0, None, SILENT.format(36), 0.18),
    ],
)
def test_a_late_end(
    after_s: float,
    silent_s: float | None,
    runnable: float | None,
    said: str | None,
    weight: float,
) -> None:
    end = EndFacts(after_s, run_s=60.0, member="chief-0", silent_s=silent_s, runnable=runnable)
    found = check_run("end-late", replace(run(member("chief-0")), end=end))
    assert [one.says for one in found] == ([said] if said else [])
    assert [one.weight for one in found] == pytest.approx([weight] if said else [])


def test_a_run_that_goes_on_has_no_end() -> None:
    with pytest.raises(Unknown):
        check_run("end-late", run(member("chief-0")))
