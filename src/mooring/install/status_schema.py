"""What the operator writes into the status of its resources, as structural schemas.

The one place that says so: the operator's writer, `kubectl get` and other programs go by it. Within
v1, fields are added and never change their meaning.
"""

from __future__ import annotations

from typing import Any

from mooring.install.structural import PRESERVE

Schema = dict[str, Any]

_MOST_PLACES = 10_000
_LONGEST_MESSAGE = 32_768


def _text(description: str, longest: int = 1024) -> Schema:
    return {"type": "string", "maxLength": longest, "description": description}


def _time(description: str) -> Schema:
    return {"type": "string", "format": "date-time", "description": description}


def _count(description: str) -> Schema:
    return {"type": "integer", "format": "int64", "minimum": 0, "description": description}


#: As in Kubernetes' own resources (metav1.Condition).
CONDITIONS: Schema = {
    "type": "array",
    "description": "What is true of the resource, each with the time at which it became so.",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "maxItems": 32,
    "items": {
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": _text("Such as Queued, Admitted, Running, Succeeded or Failed.", 316),
            "status": {
                "type": "string",
                "enum": ["True", "False", "Unknown"],
                "description": "Whether it is so.",
            },
            "reason": _text("One word for programs.", 1024),
            "message": _text("A sentence for people.", _LONGEST_MESSAGE),
            "lastTransitionTime": _time("When the status last changed."),
            "observedGeneration": _count("The generation of the spec that it is about."),
        },
    },
}

JOB_STATUS: Schema = {
    "type": "object",
    "description": "What the operator observed and decided. Written by the operator alone.",
    "properties": {
        "phase": _text("Where the job stands, in one word.", 63),
        "reason": _text("Why it stands there, in one word."),
        "message": _text("Why it stands there, in a sentence.", _LONGEST_MESSAGE),
        "stage": _text("What the operator is doing about it; finer than the phase.", 63),
        "ready": _text("Members that are ready, of all: such as 3/4.", 32),
        "pool": _text("The pool whose share the job uses.", 63),
        "epoch": _count("How often the gang was started; every start has its own."),
        "restarts": _count("Restarts so far."),
        "placement": {
            "type": "object",
            "description": "The nodes of each role's members, in the order of their indexes; of a "
            "very large job the first ones.",
            "maxProperties": _MOST_PLACES,
            "additionalProperties": {
                "type": "array",
                "maxItems": _MOST_PLACES,
                "items": {"type": "string", "maxLength": 253},
            },
        },
        "record": {
            "type": "object",
            "description": "What the operator must remember between two looks, members included; "
            "packed, if that is long.",
            PRESERVE: True,
            # Else the server keeps a list of all fields in it, which may be as long again.
            "x-kubernetes-map-type": "atomic",
        },
        "conditions": CONDITIONS,
        "queuedAt": _time("Since when the job has been waiting."),
        "admittedAt": _time("When its place was found."),
        "startedAt": _time("When all members were ready."),
        "finishedAt": _time("When it was over."),
        "examplesPerSecond": {
            "type": "number",
            "minimum": 0,
            "description": "Training examples a second, of all members, as last reported.",
        },
        "steps": _count("Training steps done."),
        "pinning": {
            "type": "object",
            "description": "The CPUs that members really hold, and whether they are their own.",
            "maxProperties": 64,
            "additionalProperties": _text("Such as: exclusive 2-3"),
        },
        "observedGeneration": _count("The generation of the spec that this status is about."),
    },
}
