"""A place whose memory limit is nearly reached."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import NodeFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import MEBIBYTE
from mooring.doctor.registry import CheckPage, DoesNotApply, node_check

_FULL = 0.9
_PAGE = CheckPage(
    why="Beyond its limit the kernel first takes away cached files, which makes reading slow, "
    "and then ends a process of the group.",
    measured="Memory in use of the nearest control group with a limit, without cached files that "
    "can be dropped at once. Nine tenths are reported.",
    fix="A larger limit, or a smaller batch, fewer loader processes, less prefetching.",
)


@node_check("node-memory", "Close to the memory limit of this place", _PAGE)
def node_memory(facts: NodeFacts) -> Iterator[Found]:
    if facts.memory_limit_bytes is None or facts.memory_used_bytes is None:
        raise DoesNotApply("no memory limit here")
    if facts.memory_used_bytes < _FULL * facts.memory_limit_bytes:
        return
    share = 100 * facts.memory_used_bytes / facts.memory_limit_bytes
    yield Found(
        says=f"{share:.0f} % of the memory limit are in use",
        evidence=(
            Figure("used", facts.memory_used_bytes / MEBIBYTE, "MiB", "control group"),
            Figure("limit", facts.memory_limit_bytes / MEBIBYTE, "MiB", "control group"),
        ),
        remedy=Remedy("raise the limit or use less", where="whoever set it"),
        confidence=Confidence.CERTAIN,
        weight=1.0,
    )
