"""plan.json: the plan of a run with what each member holds, for people and for other runs.

Other runs on the same machine read it to know which CPUs, memory and devices are taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mooring.model.errors import BadInput
from mooring.model.member import Duty, Gang, MemberId
from mooring.model.plan import Plan, Slot
from mooring.model.resources import Resources
from mooring.record.journal import JsonValue
from mooring.record.private import write_whole

#: A job of ten thousand members, each with the reasons of as many nodes, is far below.
_MOST_BYTES = 256 << 20
_MOST_CPUS = 1 << 16
_LARGEST = 1 << 62
#: Changes when an older reader would take a plan for something else; plans without one are of 1.
VERSION = 1
_MEMBER = re.compile(r"[a-z0-9][a-z0-9-]{0,61}-[0-9]{1,6}")


@dataclass(frozen=True)
class Holding:
    """What one member of a running gang holds."""

    member: MemberId
    resources: Resources
    slot: Slot


def plan_document(gang: Gang, plan: Plan) -> dict[str, JsonValue]:
    """The plan as data: also what `moor plan -o json` prints."""
    resources = {member.id: member.resources for member in gang.members}
    members: list[JsonValue] = []
    for placement in plan.placements:
        slot = placement.slot
        members.append(
            {
                "member": placement.member.name,
                "role": placement.member.role,
                "index": placement.member.index,
                "node": slot.node,
                "cpus": list(slot.cpus),
                "exclusive": slot.exclusive,
                "cells": list(slot.cells),
                "gpus": list(slot.gpus),
                "gpu_share_millis": slot.gpu_share_millis,
                "resources": dict(asdict(resources[placement.member])),
                "nodes": [
                    {
                        "node": verdict.node,
                        "refused": list(verdict.reasons),
                        "scores": dict(verdict.scores),
                    }
                    for verdict in placement.verdicts
                ],
            }
        )
    return {
        "version": VERSION,
        "job": plan.job,
        "preset": gang.preset.value,
        "duties": {role: gang.duty_of(role).value for role in gang.roles},
        "members": members,
        "waiting": [member.name for member in plan.waiting],
        "notes": list(plan.notes),
    }


def write_plan(path: Path, gang: Gang, plan: Plan) -> None:
    write_whole(path, json.dumps(plan_document(gang, plan), indent=1))


@dataclass(frozen=True)
class StoredPlan:
    """What plan.json says, checked: anybody may have written a file of this name."""

    holdings: tuple[Holding, ...]
    waiting: tuple[str, ...]
    notes: tuple[str, ...]
    preset: str
    duties: Mapping[str, Duty]

    @property
    def server_roles(self) -> tuple[str, ...]:
        return tuple(role for role, duty in self.duties.items() if duty is Duty.SERVES)


def read_plan(path: Path) -> StoredPlan | None:
    """None if there is no plan, or something else in its place.

    Raises BadInput for a plan of a newer version: what it gives to members must not be taken for
    free.
    """
    try:
        with path.open("rb") as file:
            plan = json.loads(file.read(_MOST_BYTES))
        version = plan.get("version", VERSION)
        if type(version) is int and version > VERSION:
            raise BadInput.at(
                str(path),
                "version",
                f"{min(version, _LARGEST)}, the version of a newer Mooring",
                f"up to {VERSION}: use the Mooring that made it, or a later one",
            )
        return StoredPlan(
            tuple(_holding(entry) for entry in plan["members"]),
            tuple(name for name in _texts(plan.get("waiting", [])) if is_member(name)),
            _texts(plan.get("notes", [])),
            _text(plan.get("preset", "")),
            _duties(plan),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _duties(plan: Any) -> dict[str, Duty]:
    """Plans of earlier versions name those that serve, and nobody else."""
    served = dict.fromkeys(_texts(plan.get("server_roles", [])), Duty.SERVES)
    named = plan.get("duties", {})
    return {**served, **{role: Duty(named[role]) for role in _texts(list(named))}}


def read_holdings(path: Path) -> list[Holding]:
    """What the members of a run were given; empty if there is no readable plan.

    Raises BadInput for a plan of a newer version.
    """
    plan = read_plan(path)
    return list(plan.holdings) if plan is not None else []


def is_member(name: str) -> bool:
    """Whether this can be the name of a member, which is also that of its files."""
    return _MEMBER.fullmatch(name) is not None


def _holding(entry: Any) -> Holding:
    """Raises ValueError, KeyError or TypeError for what is none."""
    name = _text(entry["member"])
    if not is_member(name):
        raise ValueError("no member")
    member = MemberId(name.rpartition("-")[0], int(name.rpartition("-")[2]))
    given = dict(entry.get("resources", {}))
    extended = tuple((_text(name), _whole(count)) for name, count in given.pop("extended", ()))
    amounts = {_text(name): _whole(count) for name, count in given.items()}
    slot = Slot(
        _text(entry["node"]),
        _wholes(entry["cpus"]),
        _wholes(entry.get("cells", [])),
        _wholes(entry["gpus"]),
        entry["exclusive"] is True,
        _whole(entry.get("gpu_share_millis", 0)),
    )
    return Holding(member, Resources(**amounts, extended=extended), slot)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value.encode(errors="replace").decode()


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError("no amount")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(_text(value) for value in _list(values))


def _wholes(values: Any) -> tuple[int, ...]:
    numbers = tuple(_whole(value) for value in _list(values))
    if any(number >= _MOST_CPUS for number in numbers):
        raise ValueError("no CPU and no device")
    return numbers


def _list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise TypeError("no list")
    return values
