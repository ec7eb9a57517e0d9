"""plan.json: the plan of a run with what each member holds, for people and for other runs.

Other runs on the same machine read it to know which CPUs, memory and devices are taken.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from mooring.model.member import Gang, MemberId
from mooring.model.plan import Plan, Slot
from mooring.model.resources import Resources
from mooring.record.journal import JsonValue
from mooring.record.private import write_whole


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
        "job": plan.job,
        "preset": gang.preset.value,
        "server_roles": list(gang.server_roles),
        "members": members,
        "waiting": [member.name for member in plan.waiting],
        "notes": list(plan.notes),
    }


def write_plan(path: Path, gang: Gang, plan: Plan) -> None:
    write_whole(path, json.dumps(plan_document(gang, plan), indent=1))


def read_holdings(path: Path) -> list[Holding]:
    """What the members of a run were given; empty if there is no readable plan."""
    try:
        members = json.loads(path.read_text(encoding="utf-8"))["members"]
        return [
            Holding(
                MemberId(entry["role"], entry["index"]),
                Resources(**entry["resources"]),
                Slot(
                    entry["node"],
                    tuple(entry["cpus"]),
                    tuple(entry["cells"]),
                    tuple(entry["gpus"]),
                    entry["exclusive"],
                    entry.get("gpu_share_millis", 0),
                ),
            )
            for entry in members
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
