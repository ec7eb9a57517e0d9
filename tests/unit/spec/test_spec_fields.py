"""Durations and quantities as a job file may write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mooring.model.amounts import format_duration
from mooring.model.resources import Resources
from mooring.spec import JobSpec, ResourceSpec
from mooring.spec.fields import LONGEST_DURATION_S, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0),
        (90, 90.0),
        (1.5, 1.5),
        ("90s", 90.0),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("1h30m5s", 5405.0),
        ("250ms", 0.25),
        ("1s500ms", 1.5),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("8760h", LONGEST_DURATION_S),
    ],
)
def test_durations_have_their_seconds(written: Any, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        *("", " ", "90", "90 s", "5 min", "m", "1d", "1s1s", "30m1h", "-5s", "1h-5m", "1e3s", "s5"),
        *("1s\n", "٣s", "1" * 100 + "s", "8761h", True, [], {}, -1, -0.5, 10**400),
        *(float("nan"), float("inf"), 1e300, LONGEST_DURATION_S + 1),
    ],
)
def test_what_is_no_duration_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError) as raised:
        JobSpec(framework="x", roles={"a": {}}, grace_period_s=written)  # type: ignore[dict-item]
    assert "duration" in str(raised.value)


@given(st.floats(min_value=0, max_value=LONGEST_DURATION_S))
def test_a_duration_survives_being_written(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("written", "resources"),
    [
        ({}, Resources()),
        ({"cpu": 2}, Resources(cpu_millis=2000)),
        ({"cpu": 0.5}, Resources(cpu_millis=500)),
        ({"cpu": "500m"}, Resources(cpu_millis=500)),
        ({"cpu": "1e1"}, Resources(cpu_millis=10_000)),
        ({"memory": "4Gi"}, Resources(memory_bytes=4 * 1024**3)),
        ({"memory": 1000}, Resources(memory_bytes=1000)),
        ({"memory": "1.5Ki"}, Resources(memory_bytes=1536)),
        ({"memory": "5E"}, Resources(memory_bytes=5 * 10**18)),
        ({"gpu": 8}, Resources(gpus=8)),
        ({"gpu": "1"}, Resources(gpus=1)),
        ({"gpu": 0.25}, Resources(gpu_share_millis=250)),
        ({"gpu": "500m"}, Resources(gpu_share_millis=500)),
        ({"gpu": 0.999}, Resources(gpu_share_millis=999)),
    ],
)
def test_resources_have_their_amounts(written: dict[str, Any], resources: Resources) -> None:
    spec = ResourceSpec.model_validate(written)
    assert spec.to_model() == resources
    again = spec.model_dump(mode="json", by_alias=True)
    assert ResourceSpec.model_validate(again) == spec


@pytest.mark.parametrize(
    "written",
    [
        *({"cpu": value} for value in ("abc", "", "-1", -1, True, [], {}, "0.1m", "1e9", 10**400)),
        *({"cpu": value} for value in (float("nan"), float("inf"), "9" * 70, "1 ")),
        *({"memory": value} for value in ("4GB", "100m", 0.5, "-1Gi", False, "1e30", [1])),
        *({"gpu": value} for value in ("1500m", 1.5, 0.0005, -1, "one", True, "1e9")),
    ],
)
def test_what_is_no_amount_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ResourceSpec.model_validate(written)
