"""Every mutant can still be made of today's tree, and a trial tells which ones are noticed."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from mutants.mutant import BadPatch, DoesNotApply, Mutant, read_mutant, read_mutants
from mutants.trial import Outcome, Trial

ROOT = Path(__file__).parents[2]
MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_patch_applies_and_names_tests_that_exist(mutant: Mutant) -> None:
    mutant.check(ROOT)
    assert mutant.files
    assert all(name.startswith("src/") for name in mutant.files)
    paths = [text for text in mutant.tests if text.startswith("tests/")]
    assert paths
    assert [path for path in paths if not (ROOT / path.partition("::")[0]).exists()] == []


def test_the_documentation_counts_them() -> None:
    text = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    found = re.search(r"(\d+) patches, (\d+) of them for a real API server", text)
    assert found is not None
    of_kube = sum(mutant.needs == "kube" for mutant in MUTANTS)
    assert found.groups() == (str(len(MUTANTS)), str(of_kube))


CODE = """
def half(number: int) -> int:
    if number < 0:
        raise ValueError
    return number // 2
"""
TESTS = """
import pytest
from product import half
def test_bound():
    with pytest.raises(ValueError):
        half(-1)
def test_value():
    assert half(4) == 2
def test_that_fails():
    assert half(4) == 3
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A product of one function with three tests, one of which fails."""
    root = tmp_path / "tree"
    for name, text in {
        "src/product.py": CODE,
        "tests/test_product.py": TESTS,
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def mutant_of(folder: Path, old: str, new: str, test: str, needs: str = "") -> Mutant:
    assert CODE.replace(old, new) != CODE
    lines = [text.splitlines(keepends=True) for text in (CODE, CODE.replace(old, new))]
    diff = difflib.unified_diff(*lines, "a/src/product.py", "b/src/product.py")
    head = f"Row: 1\nBreaks: something.\nTests: tests/test_product.py -k {test}\n"
    path = folder / "01-x.patch"
    path.write_text(head + (f"Needs: {needs}\n" if needs else "") + "".join(diff))
    return read_mutant(path)


@pytest.mark.parametrize(
    ("old", "new", "test", "outcome"),
    [
        ("raise ValueError", "pass", "bound", Outcome.CAUGHT),
        ("raise ValueError", "pass", "value", Outcome.NOT_CAUGHT),
        # No test ran: that is no failure of a test.
        ("raise ValueError", "pass", "nothing_is_called_so", Outcome.FAILS_WITHOUT),
        ("def half", "def other", "bound", Outcome.NOT_CAUGHT),
        ("raise ValueError", "pass", "that_fails", Outcome.FAILS_WITHOUT),
    ],
)
def test_what_a_trial_says(
    tree: Path, tmp_path: Path, old: str, new: str, test: str, outcome: Outcome
) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    mutant = mutant_of(tmp_path, old, new, test)
    assert Trial(tree, folder).of(mutant).outcome is outcome
    # The tree itself stays as it is.
    assert (tree / "src/product.py").read_text() == CODE


def test_a_patch_that_no_longer_applies_says_what_to_do(tree: Path, tmp_path: Path) -> None:
    mutant = mutant_of(tmp_path, "raise ValueError", "pass", "bound")
    mutant.check(tree)
    (tree / "src/product.py").write_text(CODE.replace("ValueError", "TypeError"))
    with pytest.raises(DoesNotApply, match=r"01-x.patch no longer applies to src/product.py: .*"):
        mutant.check(tree)
    folder = tmp_path / "copies"
    folder.mkdir()
    result = Trial(tree, folder).of(mutant)
    assert result.outcome is Outcome.DOES_NOT_APPLY
    assert "Take the same defence out of today's code" in result.said


def test_what_needs_more_than_there_is_is_not_run(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    mutant = mutant_of(tmp_path, "raise ValueError", "pass", "bound", "kube")
    assert Trial(tree, folder, ["kube"]).of(mutant).outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("Row: 1\nBreaks: x\n", "no line 'Tests'"),
        ("Row: 1\nTest: x\n", "found 'Test: x'; accepted: Row, Breaks, Tests or Needs"),
        ("Row: 1\nBreaks:\n", "found 'Breaks:'"),
        ("Row: 1\nBreaks: x\nTests: y\nNeeds: luck\n", "Needs: found 'luck'; accepted: root or"),
    ],
)
def test_a_head_that_does_not_say_what_it_must(tmp_path: Path, head: str, says: str) -> None:
    path = tmp_path / "01-x.patch"
    path.write_text(f"{head}--- a/x\n+++ b/x\n")
    with pytest.raises(BadPatch, match=re.escape(says)):
        read_mutant(path)
