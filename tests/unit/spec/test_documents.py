"""Several documents in one text, as manifests have them."""

from __future__ import annotations

import pytest

from mooring.model.errors import BadInput
from mooring.spec.document import parse_document, parse_documents


def test_each_document_with_the_lines_of_the_whole_file() -> None:
    first, second = parse_documents("a: 1\n---\n# nothing here\n---\nb:\n  c: 2\n", "m.yaml")
    assert (first.data, second.data) == ({"a": 1}, {"b": {"c": 2}})
    assert second.line_of(("b", "c")) == 6


def test_an_anchor_ends_with_its_document() -> None:
    with pytest.raises(BadInput, match="without its anchor"):
        parse_documents("a: &x 1\n---\nb: *x\n", "m.yaml")


def test_documents_are_bounded_together() -> None:
    with pytest.raises(BadInput, match="more than 20000 values"):
        parse_documents("---\n".join(["[" + "1," * 9_000 + "]\n"] * 3), "m.yaml")


@pytest.mark.parametrize("text", ["", "---\n", "# only words\n---\n"])
def test_nothing_is_no_document(text: str) -> None:
    with pytest.raises(BadInput, match="nothing"):
        parse_documents(text, "m.yaml")


def test_a_job_file_has_one_document() -> None:
    with pytest.raises(BadInput, match="a second YAML document"):
        parse_document("a: 1\n---\nb: 2\n", "job.yaml")
