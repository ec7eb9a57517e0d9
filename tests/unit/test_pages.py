"""How pages of the documentation are read, and when what they show counts as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pages import BadPage, Command, File, difference, steps

ROOT = Path(__file__).parents[2]
ROOT_PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES = sorted([*ROOT_PAGES, *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_commands_with_their_output_and_files(tmp_path: Path) -> None:
    text = (
        "# Title\n\n```yaml file=job.yaml\na: 1\n```\n\n"
        "```console exit=2 needs=root\n$ one \\\n    more\nout\n$ two\n```\n"
    )
    file, one, two = steps(page(tmp_path, text))
    assert file == File("job.yaml", "a: 1\n")
    assert isinstance(one, Command)
    assert isinstance(two, Command)
    assert (one.line, one.text, one.output) == (8, "one \\\n    more", ("out",))
    assert (one.exit_code, one.needs) == (2, frozenset({"root"}))
    assert (two.line, two.text, two.output) == (11, "two", ())


@pytest.mark.parametrize(
    "block", ["console needs=luck\n$ x", "console exti=2\n$ x", "console\nout"]
)
def test_a_block_in_another_format_is_an_error(tmp_path: Path, block: str) -> None:
    with pytest.raises(BadPage, match=r"page\.md:2"):
        list(steps(page(tmp_path, f"```{block}\n```\n")))


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ((), "anything"),
        (("a  b",), "a b\n\n"),
        (("a … c",), "a 12.5 c\n"),
        (("a", "…", "z"), "a\nb\nc\nz\n"),
        (("a", "…", "z"), "a\nz\n"),
        (("a", "…"), "a\n"),
        (("…", "c", "…", "c"), "b\nc\nd\nc\n"),
    ],
)
def test_what_agrees(shown: tuple[str, ...], printed: str) -> None:
    assert difference(shown, printed) is None


@pytest.mark.parametrize(
    ("shown", "printed", "named"),
    [
        (("a", "b"), "a\nc\n", "shown:   b\nprinted: c"),
        (("a", "b"), "a\n", "shown:   b\nprinted: (nothing more)"),
        (("a",), "a\nb\n", "not shown: b"),
        (("50.8 %",), "18.0 %", "shown:   50.8 %\nprinted: 18.0 %"),
        (("a", "…", "z"), "a\nb\n", "shown:   z"),
    ],
)
def test_what_does_not_agree(shown: tuple[str, ...], printed: str, named: str) -> None:
    assert named in (difference(shown, printed) or "")
