"""Quantities as Kubernetes reads them, and resources that add up exactly."""

from __future__ import annotations

from decimal import Decimal

import pytest

from mooring.model.resources import Resources, format_cpu, format_memory, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("2", "2"),
        ("+2", "2"),
        ("-2", "-2"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("1.", "1"),
        ("500m", "0.5"),
        ("1500m", "1.5"),
        ("250u", "0.00025"),
        ("1n", "0.000000001"),
        ("1k", "1000"),
        ("1M", "1000000"),
        ("1.5G", "1500000000"),
        ("1T", "1000000000000"),
        ("1P", "1000000000000000"),
        ("1E", "1000000000000000000"),
        ("1Ki", "1024"),
        ("4Gi", "4294967296"),
        ("0.5Mi", "524288"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("12e-1", "1.2"),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_quantities_have_their_value(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 ",
        " 1",
        "abc",
        "m",
        "Gi",
        "1gi",
        "1K",
        "1Mb",
        "1GiB",
        "4 Gi",
        "1,5",
        "1.2.3",
        "--1",
        "1e",
        "1e1000",
        "0x10",
        "1_000",
        "nan",
        "inf",
        "١",  # an Arabic digit is one to Python's \d, but not to Kubernetes
        "8Ei",
        "9223372036854775808",
        "1" * 65,
        "1\n",
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a quantity|too large"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("millis", "text"), [(0, "0"), (500, "500m"), (2000, "2"), (2500, "2500m")]
)
def test_cpus_are_shown_as_kubernetes_shows_them(millis: int, text: str) -> None:
    assert format_cpu(millis) == text
    assert parse_quantity(text) * 1000 == millis


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1536, "1.50Ki"),
        (4 * 1024**3, "4Gi"),
        (1024**6, "1Ei"),
    ],
)
def test_memory_is_shown_in_the_largest_unit(amount: int, text: str) -> None:
    assert format_memory(amount) == text


def test_resources_add_subtract_and_fit() -> None:
    small, large = Resources(500, 1024, 0), Resources(2000, 4096, 1)
    assert small + large == Resources(2500, 5120, 1)
    assert large - small == Resources(1500, 3072, 1)
    assert small.fits_in(large)
    assert not large.fits_in(small)
    assert not Resources(gpus=1).fits_in(Resources(9000, 9000, 0))
    assert str(large) == "2 cpu, 4Ki, 1 gpu"
    assert str(Resources()) == "nothing"


def test_resources_are_never_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        Resources() - Resources(cpu_millis=1)
