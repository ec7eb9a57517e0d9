"""The job that an import writes: plain data, put together field by field, then checked.

The models of the job file decide what can be written (`has_place`): a value whose place does not
exist there is refused at the manifest's field. The finished text goes through the same loader and
the same expansion as a file that a user wrote, and what these reject is named by the field of the
manifest that it came from.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from mooring.frameworks import expand, find
from mooring.importers.tracked import Field, LeafEntry, LeafLedger, LeafOutcome
from mooring.model.errors import BadInput, Problem
from mooring.spec import API_VERSION, TrainingJob, parse_job
from mooring.spec.base import describe
from mooring.spec.document import FieldPath, format_path
from mooring.spec.write import dump_yaml

ROLES: FieldPath = ("spec", "roles")
KUBERNETES: FieldPath = ("spec", "kubernetes")
#: Where the parts of a role stand in the order of the reference.
_ROLE_ORDER = ("replicas", "processes", "command", "env", "resources", "ports")
_SPEC_ORDER = ("framework", "strategy", "image", "command", "env", "workingDir", "roles")


class JobDraft:
    """A job file in the making."""

    def __init__(self, ledger: LeafLedger, framework: str, strategy: str | None = None) -> None:
        self.ledger = ledger
        self.ledgers = [ledger]
        self.framework = framework
        self.adapter = find(framework)
        self._data: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": "TrainingJob",
            "metadata": {},
            "spec": {"framework": framework},
        }
        if strategy is not None:
            self.put(("spec", "strategy"), strategy)

    def put(self, to: FieldPath, value: Any) -> None:
        place = self._data
        for part in to[:-1]:
            place = place.setdefault(str(part), {})
        place[str(to[-1])] = value

    def get(self, path: FieldPath) -> Any:
        value: Any = self._data
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def carry(self, to: FieldPath, field: Field, value: Any = None, note: str = "") -> None:
        """Put a field of the manifest, or the value that became of it, if it is there."""
        if field.present:
            found = field.map(to, note=note)
            self.put(to, found if value is None else value)

    def role(self, name: str, *below: str) -> FieldPath:
        return (*ROLES, name, *below)

    @property
    def role_names(self) -> list[str]:
        return list(self.get(ROLES) or {})

    def finish(self, source: str) -> tuple[str, TrainingJob] | None:
        """The text and the job; None if there are problems, which the ledger then has."""
        self._hoist()
        self._refuse_homeless()
        text = dump_yaml(self._in_order())
        try:
            job = parse_job(text, source)
            expand(job, source)
        except BadInput as error:
            for problem in error.problems:
                self._blame(problem)
            return None
        return text, job

    def _hoist(self) -> None:
        """What all roles have alike is said once, for the job."""
        roles = self.role_names
        if not roles:
            return
        settings = list(dict.fromkeys(key for role in roles for key in self._pod(role)))
        for key in settings:
            new = ("spec", "image") if key == "image" else (*KUBERNETES, key)
            self._hoist_one(("kubernetes", key), new)
        self._hoist_one(("workingDir",), ("spec", "workingDir"))
        if len(roles) > 1:
            self._hoist_one(("command",), ("spec", "command"))
            self._hoist_one(("env",), ("spec", "env"))
        for role in roles:
            if not self._pod(role):
                self.get(self.role(role)).pop("kubernetes", None)

    def _hoist_one(self, below: tuple[str, ...], new: FieldPath) -> None:
        roles = self.role_names
        values = [self.get(self.role(role, *below)) for role in roles]
        if values[0] is None or any(value != values[0] for value in values[1:]):
            return
        if self.get(new) is not None:
            return
        self.put(new, values[0])
        for role in roles:
            del self.get(self.role(role, *below[:-1]))[below[-1]]
            for ledger in self.ledgers:
                ledger.retarget(self.role(role, *below), new)

    def _pod(self, role: str) -> dict[str, Any]:
        return self.get(self.role(role, "kubernetes")) or {}

    def _refuse_homeless(self) -> None:
        for ledger, leaf, to in list(self._targets()):
            if not has_place(to):
                self._remove(to)
                _refuse(ledger, leaf, f"nothing here: a job file has no field {format_path(to)}")

    def _remove(self, path: FieldPath) -> None:
        """The value, and what is left empty around it."""
        while path:
            around = self.get(path[:-1])
            if isinstance(around, dict):
                around.pop(path[-1], None)
            if around or len(path) <= 3:
                return
            path = path[:-1]

    def _blame(self, problem: Problem) -> None:
        sources = list(self._sources(problem.path))
        for ledger, leaf in sources:
            where = f" (as {problem.path} of the job)"
            _refuse(ledger, leaf, problem.accepted + where, problem.found)
        if not sources:
            self.ledger.missing((), f"{problem.found} for {problem.path}", problem.accepted)

    def _targets(self) -> Iterator[tuple[LeafLedger, FieldPath, FieldPath]]:
        for ledger in self.ledgers:
            for leaf, to in ledger.targets():
                yield ledger, leaf, to

    def _sources(self, path: str) -> Iterator[tuple[LeafLedger, FieldPath]]:
        """The leaves that became this field of the job or a part of it; otherwise those that
        became something around it."""
        targets = [(ledger, leaf, format_path(to)) for ledger, leaf, to in self._targets()]
        exact = [(ledger, leaf) for ledger, leaf, to in targets if _within(to, path)]
        around = [(len(to), ledger, leaf) for ledger, leaf, to in targets if _within(path, to)]
        longest = max((length for length, _, _ in around), default=0)
        yield from exact or [(ledger, leaf) for length, ledger, leaf in around if length == longest]

    def _in_order(self) -> dict[str, Any]:
        spec = _ordered(self._data["spec"], _SPEC_ORDER)
        spec["roles"] = {
            name: _ordered(role, _ROLE_ORDER) for name, role in (spec.get("roles") or {}).items()
        }
        return {**self._data, "spec": spec}


def _refuse(ledger: LeafLedger, leaf: FieldPath, accepted: str, found: str = "") -> None:
    value = ledger.root.value
    for part in leaf:
        value = value[part]
    ledger.record(
        LeafEntry(leaf, LeafOutcome.REFUSED, note=accepted, found=found or describe(value))
    )


def _within(path: str, around: str) -> bool:
    return path == around or path.startswith((f"{around}.", f"{around}["))


def _ordered(data: dict[str, Any], first: tuple[str, ...]) -> dict[str, Any]:
    known = {key: data[key] for key in first if key in data}
    return {**known, **{key: value for key, value in data.items() if key not in known}}


def has_place(path: FieldPath) -> bool:
    """Whether the models of the job file have this field."""
    annotations: list[Any] = [TrainingJob]
    for part in path:
        annotations = [below for one in annotations for below in _below(one, part)]
        if not annotations:
            return False
    return True


def _below(annotation: Any, part: str | int) -> Iterator[Any]:
    """What may stand at `part` of a value of this type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _below(arguments[0], part)
    elif origin in (Union, types.UnionType):
        for one in arguments:
            yield from _below(one, part)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            if part == (field.alias or name):
                yield field.annotation
    elif origin is dict:
        yield arguments[1]
    elif origin in (tuple, list):
        yield arguments[0]
    elif annotation is not type(None):
        yield annotation
