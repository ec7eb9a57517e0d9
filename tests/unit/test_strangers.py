"""The set that the doctor is judged on: that it is what it says it is."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from mooring.spec import parse_job

_BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
_PROGRAMS = _BENCHMARKS / "strangers" / "programs"
#: What would tell a reader of a stack or of a job file what is wrong.
_TELLING = re.compile(
    r"slow|sleep|nap|wait|block|leak|grow|stall|hang|stuck|inject|fault|bad|straggl|busy|hot|dense"
    r"|checkpoint|eval|metric|accuracy|jitter|decode|spin|burn|fsync|throttl|oversub",
    re.IGNORECASE,
)


@pytest.fixture
def catalogue_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _benchmark_module("strangers_catalogue", monkeypatch)


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _benchmark_module("strangers", monkeypatch)


def _benchmark_module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Benchmarks are programs: their modules are found from their own folder, not installed."""
    monkeypatch.setattr(sys, "path", [str(_BENCHMARKS), *sys.path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return module


def test_there_are_enough_cases_and_each_cause_is_in_three_programs(
    catalogue_module: ModuleType,
) -> None:
    catalogue = catalogue_module.load()
    faulty = [case for case in catalogue.cases if not case.healthy]
    programs = {
        cause: {case.program for case in faulty if case.cause == cause}
        for cause in catalogue.causes
    }

    assert len(faulty) >= 45
    assert len(catalogue.cases) - len(faulty) >= 15
    assert {cause: found for cause, found in programs.items() if len(found) < 3} == {}
    assert {case.cause for case in faulty} == set(catalogue.causes)
    assert all(cause.ids and cause.meaning for cause in catalogue.causes.values())


def test_the_halves_are_equal_in_size_and_in_causes(catalogue_module: ModuleType) -> None:
    catalogue = catalogue_module.load()
    halves = [catalogue.half(half) for half in catalogue_module.HALVES]
    causes = [Counter(case.cause for case in half) for half in halves]

    assert len({case.name for case in catalogue.cases}) == len(catalogue.cases)
    assert sorted(case.name for half in halves for case in half) == sorted(
        case.name for case in catalogue.cases
    )
    assert abs(len(halves[0]) - len(halves[1])) <= 1
    for cause in [*catalogue.causes, catalogue_module.HEALTHY]:
        assert min(one[cause] for one in causes) >= 1
        assert abs(causes[0][cause] - causes[1][cause]) <= 1


def test_every_case_changes_something_and_can_be_made_into_a_job(
    catalogue_module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = _benchmark_module("strangers_runs", monkeypatch)
    for case in catalogue_module.load().cases:
        assert (case.faulty == case.sound) == (case.healthy and not case.faulty.switch), case.name
        document = runs.job_document(case.program, case.faulty, tmp_path, 1)
        parse_job(yaml.safe_dump(document), case.name)


def test_no_faulty_case_was_shown_to_be_none(catalogue_module: ModuleType) -> None:
    """What removing a cause brings was measured, and is enough."""
    catalogue = catalogue_module.load()
    measured = json.loads((_BENCHMARKS / "strangers" / "validity.json").read_text())

    cases = {case.name: case for case in catalogue.cases if not case.healthy}
    assert set(measured) <= set(cases)
    assert [name for name, proof in measured.items() if not proof["valid"]] == []
    changed = [name for name, proof in measured.items() if proof["of"] != cases[name].fingerprint]
    assert changed == []


@pytest.mark.parametrize("path", sorted(_PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_names_say_nothing_about_causes(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    definitions = (ast.FunctionDef, ast.ClassDef)
    names = [node.name for node in ast.walk(tree) if isinstance(node, definitions)]

    assert [name for name in [path.stem, *names] if _TELLING.search(name)] == []


def test_a_verdict_counts_what_is_first_and_what_is_second(
    strangers: ModuleType, catalogue_module: ModuleType
) -> None:
    catalogue = strangers.load()
    case = next(case for case in catalogue.cases if case.cause == "quota")
    right = {"id": catalogue.causes["quota"].ids[0]}
    other = {"id": "something-else"}

    def marks(*findings: dict[str, str]) -> tuple[bool, bool]:
        verdict = strangers.verdict_of(case, catalogue, {"findings": list(findings)})
        return verdict.right_first, verdict.right_in_two

    assert marks(right, other) == (True, True)
    assert marks(other, right) == (False, True)
    assert marks(other, other, right) == (False, False)
    assert marks() == (False, False)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([], None),
        ([{"parts": {"framework": 0.7, "network": 0.28}, "adds_up": True}], True),
        ([{"parts": {"framework": 0.7, "network": 0.2}, "adds_up": True}], False),
        ([{"parts": {"framework": 1.0}, "adds_up": False}], False),
    ],
)
def test_an_account_is_added_up_by_the_benchmark_too(
    strangers: ModuleType, ranks: list[dict[str, object]], expected: bool | None
) -> None:
    catalogue = strangers.load()
    answer = {"findings": [], "account": {"ranks": ranks}}

    assert strangers.verdict_of(catalogue.cases[0], catalogue, answer).adds_up is expected


def test_anything_found_in_a_healthy_case_is_a_false_alarm(strangers: ModuleType) -> None:
    catalogue = strangers.load()
    case = next(case for case in catalogue.cases if case.healthy)

    assert strangers.verdict_of(case, catalogue, {"findings": []}).right_first
    assert not strangers.verdict_of(case, catalogue, {"findings": [{"id": "hang"}]}).right_first


def test_the_sealed_half_is_never_the_default(
    strangers: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["strangers.py", "--list"])

    with pytest.raises(SystemExit) as refused:
        strangers.main()

    assert refused.value.code == 2
    assert "--half" in capsys.readouterr().err


def test_a_case_that_is_finished_is_not_run_again(
    strangers: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = next(case for case in strangers.load().half("development") if case.healthy)
    kept = tmp_path / "kept.json"
    verdict = strangers.Verdict(case.cause, (), True, True, True)
    kept.write_text(json.dumps({"cases": {case.name: strangers.asdict(verdict)}}))
    monkeypatch.setattr(strangers, "judge", lambda *_: pytest.fail("was run again"))
    arguments = ["--half", "development", "--only", case.name, "--json", str(kept)]
    monkeypatch.setattr(sys, "argv", ["strangers.py", *arguments])

    strangers.main()

    assert "false alarms: 0 of 1 healthy" in capsys.readouterr().out


def test_the_switch_does_what_it_is_told_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At the point, at the rank and as often as it says."""
    monkeypatch.setattr(sys, "path", [str(_PROGRAMS), *sys.path])
    monkeypatch.setenv("STRANGER_OUT", str(tmp_path))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("SWITCH", "a=epsilon:1@0;b=epsilon:1@1/2")
    monkeypatch.delitem(sys.modules, "kit", raising=False)
    kit = importlib.import_module("kit")
    monkeypatch.delitem(sys.modules, "kit")

    kit.hook("a")
    kit.hook("b")
    assert list(tmp_path.iterdir()) == []
    kit.hook("b")
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [
        ("part-1", 1 << 20)
    ]
