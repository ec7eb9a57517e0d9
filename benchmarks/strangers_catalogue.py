"""The set that the doctor is judged on: programs, causes, cases, and the two halves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "strangers"
PROGRAMS = FOLDER / "programs"
HALVES = ("development", "sealed")
#: The cause of cases in which nothing is wrong.
HEALTHY = "healthy"
#: How a cause shows when it is put in: a lower rate, memory that grows, or no end.
_EFFECTS = ("rate", "memory", "hang")


@dataclass(frozen=True)
class Setting:
    """How a program is run: what `moor run` is asked for, and what is done to it from outside."""

    spec: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    switch: str = ""
    nodes: int = 0
    nic_mbps: int = 0
    neighbours: int = 0
    quota_percent: int = 0

    def changed(self, by: Mapping[str, Any]) -> Setting:
        """With other values; mappings are merged, and a value of null takes a key away."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if unknown := by.keys() - values.keys():
            raise ValueError(f"unknown settings: {', '.join(sorted(unknown))}")
        return Setting(**merged(values, by))


@dataclass(frozen=True)
class Case:
    """`faulty` is what the doctor sees; `sound` is the same without the cause, for the proof."""

    name: str
    program: str
    cause: str
    why: str
    faulty: Setting
    sound: Setting
    effect: str = "rate"

    @property
    def healthy(self) -> bool:
        return self.cause == HEALTHY

    @property
    def fingerprint(self) -> str:
        """Changes with the program and with how it is run: a proof of another one is none."""
        program = (PROGRAMS / f"{self.program}.py").read_text(encoding="utf-8")
        return _hash(f"{program}{self.faulty}{self.sound}")[:12]


@dataclass(frozen=True)
class Cause:
    """`ids` are the findings that mean it: any of them is right."""

    name: str
    meaning: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    causes: Mapping[str, Cause]
    cases: tuple[Case, ...]

    def half(self, name: str) -> list[Case]:
        return [case for case in self.cases if self._halves[case.name] == name]

    @cached_property
    def _halves(self) -> dict[str, str]:
        """Of each cause every other case in the order of its names' hashes; causes with an odd
        number of cases give the one too many to the halves in turn, in the order of theirs."""
        halves: dict[str, str] = {}
        turn = 0
        for cause in sorted({case.cause for case in self.cases}, key=_hash):
            names = sorted((case.name for case in self.cases if case.cause == cause), key=_hash)
            for number, name in enumerate(names):
                halves[name] = HALVES[(turn + number) % 2]
            turn += len(names)
        return halves


def load(causes_file: Path = FOLDER / "causes.yaml") -> Catalogue:
    """Read the files beside the programs; the mapping of causes to ids may be another one."""
    causes = {
        name: Cause(name, given["meaning"], tuple(given["ids"]))
        for name, given in yaml.safe_load(causes_file.read_text(encoding="utf-8")).items()
    }
    document = yaml.safe_load((FOLDER / "cases.yaml").read_text(encoding="utf-8"))
    return Catalogue(causes, tuple(_cases(document["programs"], document["cases"])))


def _cases(
    programs: Mapping[str, Mapping[str, Any]], cases: Sequence[Mapping[str, Any]]
) -> Iterable[Case]:
    for given in cases:
        values = dict(given)
        name, program, cause = values.pop("name"), values.pop("program"), values.pop("cause")
        why, effect = values.pop("why"), values.pop("effect", "rate")
        if effect not in _EFFECTS:
            raise ValueError(f"{name}: effect {effect!r} is none of {', '.join(_EFFECTS)}")
        without = values.pop("without", {"switch": ""})
        faulty = Setting().changed(programs[program]).changed(values)
        yield Case(name, program, cause, why, faulty, faulty.changed(without), effect)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
