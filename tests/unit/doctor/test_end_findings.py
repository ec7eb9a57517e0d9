"""When the check of a late end speaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import check_run, member, run

from mooring.doctor.facts import EndFacts
from mooring.doctor.registry import Unknown


@pytest.mark.parametrize(
    ("after_s", "cpus", "said", "weight"),
    [
        (5.0, 0.0, None, 0.0),
        # 30 of 60 s without computing: a half is lost.
        (30.0, 0.1, "30 s passed between the last step and the end; chief-0 used next to no", 0.5),
        # The same while it computes: an evaluation, perhaps on purpose.
        (30.0, 0.9, "30 s passed between the last step and the end; chief-0 was still busy", 0.15),
        (30.0, None, "30 s passed between the last step and the end", 0.15),
    ],
)
def test_a_late_end(after_s: float, cpus: float | None, said: str | None, weight: float) -> None:
    end = EndFacts(after_s=after_s, run_s=60.0, member="chief-0", silent_s=1.0, cpus=cpus)
    found = check_run("end-late", replace(run(member("chief-0")), end=end))
    assert [one.says.startswith(said or "?") for one in found] == ([True] if said else [])
    assert [one.weight for one in found] == pytest.approx([weight] if said else [])


def test_a_run_that_goes_on_has_no_end() -> None:
    with pytest.raises(Unknown):
        check_run("end-late", run(member("chief-0")))
