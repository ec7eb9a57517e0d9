"""Two logs side by side: what is read from them, and which pattern the difference has."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mooring.doctor.comparing import Better, GapPattern, Measure, Side, compare, readable, times
from mooring.doctor.read_log import parse_log, read_log
from mooring.doctor.read_measures import program_context
from mooring.model.errors import BadInput
from mooring.model.strict_json import json_text
from mooring.record.start import Start

LOGS = Path(__file__).parent / "logs"


def sizes(*times_ms: float) -> Side:
    """Models m0, m1, ... of growing size."""
    measures = [Measure(f"m{i} train time", "ms", (t,)) for i, t in enumerate(times_ms)]
    return Side("log", tuple(measures), {})


@pytest.mark.parametrize(
    ("a", "b", "pattern"),
    [
        # 34 ms more in each step: 1.83, 1.61, 1.37, 1.16 times.
        ((41, 56, 93, 210), (75, 90, 127, 244), GapPattern.PER_STEP),
        # 1.5 times, whatever the size.
        ((40, 60, 90, 200), (60, 90, 135, 300), GapPattern.PROPORTIONAL),
        # 1.0, 1.1, 1.3, 1.8 times.
        ((40, 60, 90, 200), (40, 66, 117, 360), GapPattern.GROWING),
        ((40, 60, 90, 200), (40.5, 60.1, 89, 203), GapPattern.SAME),
        ((40, 60, 90, 200), (60, 62, 140, 220), GapPattern.MIXED),
        ((40, 60), (80, 90), GapPattern.FEW),
        # B is the faster one, and gains most where steps are short.
        ((75, 90, 127, 244), (41, 56, 93, 210), GapPattern.PER_STEP),
    ],
)
def test_patterns(a: tuple[float, ...], b: tuple[float, ...], pattern: GapPattern) -> None:
    [verdict] = compare(sizes(*a), sizes(*b)).verdicts
    assert verdict.pattern is pattern


def test_two_benchmark_logs_with_a_host_that_costs_time_in_every_step() -> None:
    """One GPU model in two hosts: 1.83 times slower at 41 ms a step, 1.04 times at 260 ms."""
    found = compare(read_log(LOGS / "intel.txt"), read_log(LOGS / "amd.txt"))
    families = {verdict.family: verdict for verdict in found.verdicts}
    assert set(families) == {"model average train time", "model average inference time"}
    for verdict in families.values():
        assert len(verdict.rows) == 9
        assert verdict.pattern is GapPattern.PER_STEP
        assert "The smaller the work, the larger the gap" in verdict.says
        assert "host side (CPU scheduling, pinning" in verdict.says
        assert "not the GPU" in verdict.says
    smallest = families["model average train time"].rows[0]
    # 75.708 / 41.396
    assert smallest.name.startswith("resnet18")
    assert smallest.ratio == pytest.approx(1.8288, abs=1e-3)
    assert ("cpu_count", "80", "256") in found.differences
    assert ("Device Name", "NVIDIA GeForce RTX 3090") in found.alike


def test_repetitions_are_a_spread() -> None:
    a = parse_log("step time: 10 ms\nstep time: 12 ms\nstep time: 11 ms\n", "a")
    b = parse_log("step time: 11.5 ms\nstep time: 13 ms\nstep time: 0.0125 s\n", "b")
    [verdict] = compare(a, b).verdicts
    [row] = verdict.rows
    # Medians 11 and 12.5; 11.5 / 12 and 13 / 10: the repetitions overlap.
    assert (row.a, row.b) == (11, 12.5)
    assert row.low == pytest.approx(11.5 / 12)
    assert row.high == pytest.approx(1.3)
    assert not row.differs
    assert verdict.pattern is GapPattern.SAME


@pytest.mark.parametrize(
    ("line", "name", "value", "unit", "better"),
    [
        ("resnet18 model average train time : 41.39ms", "resnet18 model average train time",
         41.39, "ms", Better.LOWER),
        ("epoch time = 2.5 s", "epoch time", 2500.0, "ms", Better.LOWER),
        ("throughput: 1,234.5 images/sec", "throughput", 1234.5, "images/sec", Better.HIGHER),
        ("copy 3e2 us", "copy", 0.3, "ms", Better.LOWER),
    ],
)  # fmt: skip
def test_lines_that_are_measures(
    line: str, name: str, value: float, unit: str, better: Better
) -> None:
    [measure] = parse_log(line, "log").measures
    assert (measure.name, measure.unit, measure.better) == (name, unit, better)
    assert measure.values == (pytest.approx(value),)


@pytest.mark.parametrize(
    "line", ["", "start", "cpu_count: 80", "took 3 apples", "train time : fast", "5 ms"]
)
def test_lines_that_are_none(line: str) -> None:
    assert parse_log(line, "log").measures == ()


def test_a_log_without_measures_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("nothing here\n")
    with pytest.raises(BadInput, match="no measures"):
        read_log(path)


def test_what_only_one_job_sets_is_a_difference() -> None:
    a = Side("a", (), {"worker-0 on": "x", "spec.threads": "auto"}, whole=True)
    lookups = {"spec.variables.lookups": "rows"}
    b = Side("b", (), {"worker-0 on": "y", "spec.threads": "auto", **lookups}, whole=True)
    # What was set comes before what followed.
    assert compare(a, b).differences == (
        ("spec.variables.lookups", "not set", "rows"),
        ("worker-0 on", "x", "y"),
    )
    assert compare(b, a).differences[0] == ("spec.variables.lookups", "rows", "not set")


def test_headers_of_logs_that_only_one_has_are_none() -> None:
    assert compare(Side("a", (), {"host": "x"}), Side("b", (), {})).differences == ()


@pytest.mark.parametrize(
    ("unit", "a", "b", "said"),
    [
        ("ms", 0.0004, 0.0012, ("0.4 µs", "1.2 µs")),
        ("ms", 0.5, 12.0, ("0.5 ms", "12 ms")),
        ("ms", 90_000.0, 100_000.0, ("1.5 min", "1.667 min")),
        ("B", 512.0, 700.0, ("512 B", "700 B")),
        ("B", 2.5e9, 1e6, ("2.5 GB", "0.001 GB")),
        ("/s", 1234.5, 0.004, ("1,234 /s", "0.004 /s")),
        ("", 1.5, 3.0, ("1.5", "3")),
    ],
)
def test_units_by_magnitude(unit: str, a: float, b: float, said: tuple[str, str]) -> None:
    first = Side("a", (Measure("m", unit, (a,)),), {})
    second = Side("b", (Measure("m", unit, (b,)),), {})
    [verdict] = compare(first, second).verdicts
    [row] = verdict.rows
    assert readable(row) == said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(0.00423, "0.00423"), (0.5, "0.50"), (1.829, "1.83"), (25.63, "25.6"), (1204.4, "1,204")],
)
def test_no_ratio_is_rounded_to_nothing(ratio: float, said: str) -> None:
    assert times(ratio) == said


def test_the_time_to_read_a_log_grows_with_its_size_alone() -> None:
    """A line with 1,600 blanks took 48 s, and 20,000 measures over a minute."""
    blanks = "a" + " " * 1600 + "b 3"
    digits = ("1," * 120 + "1" * 250, "x" * 200 + "9" * 250 + "s", "1e1" * 150 + "ms")
    texts = ["\n".join([blanks, *digits] * 100)]
    for side in range(2):
        lines = (f"m{number} train time : {number % 97 + side + 1} ms" for number in range(20_000))
        texts.append("\n".join(lines))
    begun_s = time.process_time()
    _, first, second = (parse_log(text, "log") for text in texts)
    found = compare(first, second)
    assert len(found.verdicts[0].rows) == 20_000
    assert time.process_time() - begun_s < 5


def test_what_is_no_number_is_no_measure() -> None:
    lines = ["a time : 1e999 ms", "b time : 0 ms", "c time : 1e-300 ns", "d time : 2 ms"]
    side = parse_log("\n".join(lines), "log")
    assert [one.name for one in side.measures] == ["d time"]
    assert "NaN" not in json_text(compare(side, side).document())


def test_programs_are_compared_by_their_content_wherever_they_lie() -> None:
    ours = Start("/a", hashes={"/a/train.py": "1" * 64, "/a/lib/data.py": "2" * 64}, python="p")
    theirs = Start("/b", hashes={"/b/train.py": "3" * 64, "/b/lib/data.py": "2" * 64}, python="p")
    sides = [
        Side(name, (), program_context(one), whole=True)
        for name, one in zip("ab", (ours, theirs), strict=True)
    ]
    assert compare(*sides).differences == (
        ("program train.py", "content 111111111111", "content 333333333333"),
    )
