"""Extended resources: anything countable that a node offers beside CPUs, memory and GPUs.

Names and amounts are checked as Kubernetes checks them: a qualified name outside of its own
domain, or huge pages of a size; whole numbers; huge pages in multiples of their size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic.config import JsonDict

from mooring.model.resources import HUGE_PAGES, STORAGE, is_extended, parse_quantity
from mooring.spec.base import Rejection, describe, reject, rejected

GPUS = "nvidia.com/gpu"
#: As many as a quantity can count exactly on both sides.
_MOST = 2**63 - 1
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_ACCEPTED_NAME = "a name such as example.com/fpga (domain/name), hugepages-2Mi or ephemeral-storage"
_ACCEPTED_COUNT = "a whole number such as 2, or a quantity such as 512Mi that is one"


def _check(found: object) -> dict[str, int]:
    """Name -> count. All that is wrong is told at once, each at its name."""
    if not isinstance(found, Mapping):
        raise reject(found, f"a mapping from names to counts, each {_ACCEPTED_NAME}")
    wrong: list[Rejection] = []
    counts: dict[str, int] = {}
    for name, value in found.items():
        problem = _name_problem(name)
        count = _whole(value)
        if problem:
            wrong.append(Rejection(describe(name), problem, (str(name),)))
        elif count is None:
            wrong.append(Rejection(describe(value), _ACCEPTED_COUNT, (name,)))
        elif name.startswith(HUGE_PAGES) and count % (_page_bytes(name) or 1):
            accepted = f"a multiple of the size of a page, {name.removeprefix(HUGE_PAGES)}"
            wrong.append(Rejection(describe(value), accepted, (name,)))
        else:
            counts[name] = count
    if wrong:
        raise rejected(wrong)
    return counts


def _name_problem(name: object) -> str:
    """What would be accepted instead; empty if the name is good."""
    if not isinstance(name, str) or not is_extended(name):
        return _ACCEPTED_NAME
    if name == GPUS:
        return "'gpu' in 'resources', or 'gpus' of a node: devices have a place of their own"
    if name == STORAGE:
        return ""
    if name.startswith(HUGE_PAGES):
        return "" if _page_bytes(name) else "hugepages- and a size such as 2Mi or 1Gi"
    domain, _, rest = name.partition("/")
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        return "a domain other than kubernetes.io, which Kubernetes keeps for itself"
    good_domain = len(domain) <= 253 and _SUBDOMAIN.fullmatch(domain)
    if good_domain and len(rest) <= 63 and _NAME.fullmatch(rest):
        return ""
    return _ACCEPTED_NAME


def _page_bytes(name: str) -> int | None:
    size = _whole(name.removeprefix(HUGE_PAGES))
    return size if size else None


def _whole(value: object) -> int | None:
    huge = isinstance(value, int) and value.bit_length() > 64
    if huge or isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = parse_quantity(str(value))
    except ValueError:
        return None
    return int(amount) if 0 <= amount <= _MOST and amount % 1 == 0 else None


_COUNT_SCHEMA: JsonDict = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {
            "type": "string",
            "pattern": r"^\+?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3}|[numkMGTPE]|[KMGTPE]i)?$",
            "maxLength": 64,
        },
    ]
}
Extended = Annotated[
    dict[str, int],
    BeforeValidator(_check),
    WithJsonSchema({"type": "object", "additionalProperties": _COUNT_SCHEMA}),
]


#: What `gathered` accepts beside the named fields.
BESIDE: JsonDict = {"patternProperties": {f"/|^{HUGE_PAGES}|^{STORAGE}$": _COUNT_SCHEMA}}


def extended_field(whose: str) -> Any:
    return Field(
        {},
        description=f"Other resources of {whose} by name, counted whole: `domain/name` as "
        "device plugins report them (`example.com/fpga`, `rdma/hca`), `hugepages-2Mi`, "
        "`ephemeral-storage`.",
        examples=[{"example.com/fpga": 2}],
    )


def gathered(data: object) -> object:
    """Names that stand beside `cpu` and `memory`, as in Kubernetes, moved into `extended`."""
    if not isinstance(data, dict):
        return data
    direct = {name: value for name, value in data.items() if is_extended(name)}
    if not direct:
        return data
    counted = _check(direct)
    own = data.get("extended")
    twice = [name for name in direct if isinstance(own, Mapping) and name in own]
    if twice:
        accepted = "each name once, here or in 'extended'"
        raise rejected([Rejection(f"{name} a second time", accepted, (name,)) for name in twice])
    rest = {name: value for name, value in data.items() if name not in direct}
    return {**rest, "extended": {**own, **counted} if isinstance(own, Mapping) else counted}
