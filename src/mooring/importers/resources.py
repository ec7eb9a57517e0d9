"""Requests and limits of a container become what a member asks for.

A member has one number for each resource. CPU: what the pod requests, because the scheduler counts
with that and members that share CPUs may use more. Memory: the limit, because above it the pod
would be killed, and Mooring's number is a limit too.
"""

from __future__ import annotations

from mooring.importers.draft import JobDraft
from mooring.importers.tracked import Field

#: Device plugins whose resource is a whole GPU.
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915")


def read_resources(resources: Field, draft: JobDraft, role: str) -> None:
    limits, requests = resources["limits"], resources["requests"]
    names = [name for name, _ in (*limits.fields(), *requests.fields())]
    for name in dict.fromkeys(names):
        chosen, other = limits[name], requests[name]
        if name == "cpu" and other.present:
            chosen, other = other, chosen
        if not chosen.present:
            chosen, other = other, chosen
        draft.carry(draft.role(role, "resources", *_place(name)), chosen)
        if other.present and other.value == chosen.value:
            other.map(draft.role(role, "resources", *_place(name)))
        elif name == "cpu":
            other.drop("CPUs are reserved by request; members that share may use more")
        else:
            other.drop("what a member asks for is also its limit")
    resources["claims"].refuse("counted resources: device claims cannot be placed")


def _place(name: str) -> tuple[str, ...]:
    if name in ("cpu", "memory"):
        return (name,)
    if name in GPU_RESOURCES:
        return ("gpu",)
    return ("extended", name)
