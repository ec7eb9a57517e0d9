"""Files to checked models: the one way in for whatever a user wrote.

Whatever is in the file, the only error that leaves here is BadInput, with every problem that
could be found in one pass, each with its path and line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from mooring.model.errors import BadInput, Problem
from mooring.spec.base import Rejection
from mooring.spec.document import Document, FieldPath, format_path, parse_document
from mooring.spec.explain import explain
from mooring.spec.job import TrainingJob
from mooring.spec.overrides import Override, apply, parse_overrides
from mooring.spec.source import WHOLE_FILE, name_of, read_text

# Who reads a job does not pay for the models of cluster files.
if TYPE_CHECKING:
    from mooring.model.cluster import Node
    from mooring.spec.cluster import ClusterFile
    from mooring.spec.pools import ClusterPool, PoolsFile

_MOST_PROBLEMS = 50
_Model = TypeVar("_Model", bound=BaseModel)


def load_job(path: Path, overrides: Sequence[str] = ()) -> TrainingJob:
    """The job in a file, with `--set` overrides applied. Raises BadInput."""
    return parse_job(read_text(path), name_of(path), overrides)


def parse_job(text: str, source: str, overrides: Sequence[str] = ()) -> TrainingJob:
    """The job in a text; `source` names it in errors. Raises BadInput."""
    sets = parse_overrides(overrides, source)
    document = parse_document(text, source)
    if isinstance(document.data, dict):
        refused = [apply(document.data, one, one.value) for one in sets]
        problems = [problem for problem in refused if problem is not None]
        if problems:
            raise BadInput(source, problems)
        _use_text_where_wanted(document.data, sets)
    job = _validate(TrainingJob, document, source, sets)
    job.remember_lines(document.lines)
    return job


def check_job(data: object, source: str) -> TrainingJob:
    """The job in a document that nobody wrote as YAML: an API server's. Raises BadInput."""
    return _validate(TrainingJob, Document(data, {}), source)


def check_pool(data: object, source: str) -> ClusterPool:
    """The pool in such a document, its name included. Raises BadInput."""
    from mooring.spec.pools import ClusterPool

    return _validate(ClusterPool, Document(data, {}), source)


def parse_pools(text: str, source: str) -> PoolsFile:
    """A pools file, of one machine. Raises BadInput."""
    from mooring.spec.pools import PoolsFile

    return _validate(PoolsFile, parse_document(text, source), source)


def load_cluster_file(path: Path) -> ClusterFile:
    """A whole cluster file: nodes, and how jobs share them. Raises BadInput."""
    return _parse_cluster_file(read_text(path), name_of(path))


def load_cluster(path: Path) -> tuple[Node, ...]:
    """The nodes that a cluster file describes. Raises BadInput."""
    return load_cluster_file(path).to_nodes()


def parse_cluster(text: str, source: str) -> tuple[Node, ...]:
    """The nodes that a text describes; `source` names it in errors. Raises BadInput."""
    return _parse_cluster_file(text, source).to_nodes()


def _parse_cluster_file(text: str, source: str) -> ClusterFile:
    from mooring.spec.cluster import ClusterFile

    return _validate(ClusterFile, parse_document(text, source), source)


def _use_text_where_wanted(data: dict[str, Any], sets: Sequence[Override]) -> None:
    """`--set env.STEPS=100` means the text: the shell has eaten the quotes that YAML needs."""
    doubtful = [one for one in sets if isinstance(one.value, int | float)]
    if not doubtful:
        return
    wrong = _places_of(data)
    retried = [one for one in doubtful if one.path in wrong]
    for one in retried:
        apply(data, one, one.raw)
    still_wrong = _places_of(data) if retried else set()
    for one in retried:
        if one.path in still_wrong:
            apply(data, one, one.value)


def _places_of(data: Any) -> set[FieldPath]:
    """Where validation finds something wrong."""
    try:
        TrainingJob.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        return {one.at for one in explain(error, TrainingJob, most=_MOST_PROBLEMS)}
    return set()


def _validate(
    model: type[_Model], document: Document, source: str, sets: Sequence[Override] = ()
) -> _Model:
    rejections = _missing_header(model, document.data)
    result: _Model | None = None
    try:
        result = model.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        rejections += explain(error, model, most=_MOST_PROBLEMS + 1)
    problems = [problem for _, problem in document.problems]
    already = {path for path, _ in document.problems}
    problems += [
        _problem(rejection, document, sets)
        for rejection in rejections
        if rejection.at not in already
    ]
    if problems or result is None:
        raise BadInput(source, _in_order(problems))
    return result


def _missing_header(model: type[BaseModel], data: Any) -> list[Rejection]:
    """A file must say what it is, though a model made in Python need not."""
    if not isinstance(data, dict):
        return []
    return [
        Rejection("nothing", f"'{field.alias or name}: {field.default}'", (field.alias or name,))
        for name, field in model.model_fields.items()
        if name in ("api_version", "kind") and data.get(field.alias or name) is None
    ]


def _problem(rejection: Rejection, document: Document, sets: Sequence[Override]) -> Problem:
    path = format_path(rejection.at)
    for one in sets:
        within = rejection.at[: len(one.path)] == one.path
        made = rejection.at not in document.lines and one.path[: len(rejection.at)] == rejection.at
        if within or made:
            return Problem(f"{path} ({one.label})", rejection.found, rejection.accepted)
    return Problem(path, rejection.found, rejection.accepted, document.line_of(rejection.at))


def _in_order(problems: list[Problem]) -> list[Problem]:
    ordered = sorted(problems, key=lambda one: one.line or 0)
    if len(ordered) > _MOST_PROBLEMS:
        more = Problem(WHOLE_FILE, "more problems than are listed here", "none of them")
        ordered = [*ordered[:_MOST_PROBLEMS], more]
    return ordered
