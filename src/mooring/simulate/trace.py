"""Workload files: YAML for workloads written by hand, CSV for long traces.

As with job files, whatever stands in the file the only error that leaves here is BadInput, with
the place, what was found there and what would be accepted.
"""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from mooring.brain.queue.order import CLASSES
from mooring.model.errors import BadInput, Problem
from mooring.simulate.workload import Workload, WorkloadJob, in_order
from mooring.simulate.workload_file import CLASSES_KEY, WorkJob, WorkloadFile
from mooring.spec.base import Rejection, one_of, shorten
from mooring.spec.document import Document, format_path, parse_document
from mooring.spec.explain import explain
from mooring.spec.source import WHOLE_FILE, name_of, read_text

#: A million jobs of 130 bytes a line; YAML keeps the smaller bound of every other file.
LARGEST_CSV_BYTES = 128 * 1024 * 1024
_MOST_JOBS = 1_000_000
_MOST_PROBLEMS = 20


def load_workload(path: Path, classes: Mapping[str, int] = CLASSES) -> Workload:
    """The workload in a file: CSV if its name ends so, otherwise YAML. Raises BadInput.

    `classes` are the priorities that have names.
    """
    if path.suffix.lower() == ".csv":
        return parse_csv(_read_csv(path), name_of(path), classes)
    return parse_workload(read_text(path), name_of(path), classes)


def parse_workload(text: str, source: str, classes: Mapping[str, int] = CLASSES) -> Workload:
    document = parse_document(text, source)
    problems = [problem for _, problem in document.problems]
    try:
        found = WorkloadFile.model_validate(
            document.data, by_alias=True, by_name=False, context={CLASSES_KEY: classes}
        )
    except ValidationError as error:
        rejections = explain(error, WorkloadFile, most=_MOST_PROBLEMS)
        raise BadInput(source, problems + _problems(rejections, document)) from None
    if problems:
        raise BadInput(source, problems)
    jobs = [job.to_model() for job in found.jobs]
    return Workload(in_order(jobs), tuple(pool.to_model() for pool in found.pools), source)


def _problems(rejections: list[Rejection], document: Document) -> list[Problem]:
    return [
        Problem(
            format_path(rejection.at),
            rejection.found,
            rejection.accepted,
            document.line_of(rejection.at),
        )
        for rejection in rejections
    ]


#: CSV column -> where its value stands in a WorkJob. One role a line.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "name": ("name",),
    "arrival_s": ("arrival",),
    "duration_s": ("duration",),
    "work_s": ("work",),
    "speed": ("speed",),
    "replicas": ("roles", "{role}", "replicas"),
    "cpu": ("roles", "{role}", "resources", "cpu"),
    "memory": ("roles", "{role}", "resources", "memory"),
    "gpu": ("roles", "{role}", "resources", "gpu"),
    "pool": ("pool",),
    "priority": ("priority",),
    "preset": ("preset",),
    "pinning": ("pinning",),
    "preemptible": ("preemptible",),
    "min_available": ("minAvailable",),
    "expected_s": ("expected",),
    "checkpoint_s": ("checkpoint",),
    "start_s": ("start",),
    "role": (),
}
_NEEDED = ("name", "arrival_s")
_WHOLE = frozenset({"replicas", "priority", "min_available", "gpu"})
_SECONDS = frozenset(
    {"arrival_s", "duration_s", "work_s", "speed", "expected_s", "checkpoint_s", "start_s"}
)


def parse_csv(text: str, source: str, classes: Mapping[str, int] = CLASSES) -> Workload:
    """A header of column names and a line for each job; empty cells mean the default."""
    lines = csv.reader(text.splitlines())
    try:
        header = [name.strip() for name in next(lines, [])]
    except csv.Error as error:
        raise BadInput.at(source, WHOLE_FILE, f"bad CSV ({error})", "valid CSV") from None
    problems = [
        Problem(f"column {shorten(name)!r}", "an unknown column", one_of(name, _COLUMNS), 1)
        for name in header
        if name not in _COLUMNS
    ]
    problems += [
        Problem(f"column '{name}'", "nothing", "this column", 1)
        for name in _NEEDED
        if name not in header
    ]
    if len(set(header)) < len(header):
        problems.append(Problem("header", "a column twice", "each column once", 1))
    if problems:
        raise BadInput(source, problems[:_MOST_PROBLEMS])
    jobs: list[WorkloadJob] = []
    names: set[str] = set()
    for line, cells in _rows(lines, source):
        if len(jobs) >= _MOST_JOBS:
            raise BadInput.at(source, WHOLE_FILE, "more jobs", f"at most {_MOST_JOBS:,}")
        job = _csv_job(header, cells, line, problems, classes)
        if job is not None and job.name in names:
            found = f"the name '{job.name}' a second time"
            problems.append(Problem("name", found, "each name once", line))
        elif job is not None:
            names.add(job.name)
            jobs.append(job)
        if len(problems) >= _MOST_PROBLEMS:
            break
    if problems:
        raise BadInput(source, problems[:_MOST_PROBLEMS])
    if not jobs:
        raise BadInput.at(source, WHOLE_FILE, "no job", "at least one line below the header")
    return Workload(in_order(jobs), source=source)


def _rows(lines: Iterator[list[str]], source: str) -> Iterator[tuple[int, list[str]]]:
    line = 1
    try:
        for cells in lines:
            line += 1
            if cells:
                yield line, cells
    except csv.Error as error:
        problem = Problem(WHOLE_FILE, f"bad CSV ({error})", "valid CSV", line)
        raise BadInput(source, [problem]) from None


def _csv_job(
    header: list[str],
    cells: list[str],
    line: int,
    problems: list[Problem],
    classes: Mapping[str, int],
) -> WorkloadJob | None:
    if len(cells) != len(header):
        found, accepted = f"{len(cells)} cells", f"{len(header)}, as in the header"
        problems.append(Problem("line", found, accepted, line))
        return None
    row = {name: cell.strip() for name, cell in zip(header, cells, strict=True) if cell.strip()}
    role = row.get("role", "worker")
    data: dict[str, object] = {"roles": {role: {}}}
    for column, cell in row.items():
        target: dict[str, object] = data
        path = _COLUMNS[column]
        for part in path[:-1]:
            inner = target.setdefault(role if part == "{role}" else part, {})
            assert isinstance(inner, dict)
            target = inner
        if path:
            target[path[-1]] = _value(column, cell)
    try:
        context = {CLASSES_KEY: classes}
        return WorkJob.model_validate(
            data, by_alias=True, by_name=False, context=context
        ).to_model()
    except ValidationError as error:
        columns: Mapping[str, str] = {path[-1]: name for name, path in _COLUMNS.items() if path}
        for one in explain(error, WorkJob, most=_MOST_PROBLEMS):
            last = str(one.at[-1]) if one.at else ""
            problems.append(
                Problem(columns.get(last, last or "line"), one.found, one.accepted, line)
            )
        return None


def _value(column: str, cell: str) -> object:
    """Numbers and yes/no as YAML would have read them; what is none stays text and is refused."""
    try:
        if column in _WHOLE:
            return int(cell)
        if column in _SECONDS:
            return float(cell)
    except ValueError:
        return cell
    if column == "preemptible":
        return {"true": True, "false": False}.get(cell.lower(), cell)
    return cell


def _read_csv(path: Path) -> str:
    source, accepted = name_of(path), "a readable CSV file"
    try:
        # O_NONBLOCK: opening a named pipe would otherwise wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise BadInput.at(source, WHOLE_FILE, "no regular file", accepted)
            raw = file.read(LARGEST_CSV_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise BadInput.at(source, WHOLE_FILE, reason, accepted) from None
    if len(raw) > LARGEST_CSV_BYTES:
        found, limit = "more than 128 MiB of text", "at most 128 MiB"
        raise BadInput.at(source, WHOLE_FILE, found, limit)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = Problem(WHOLE_FILE, "bytes that are no UTF-8", "UTF-8 text", line)
        raise BadInput(source, [problem]) from None
