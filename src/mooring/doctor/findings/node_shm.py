"""Shared memory that data loaders and NCCL would fill."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import NodeFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import MEBIBYTE
from mooring.doctor.registry import CheckPage, Unknown, node_check

#: What container engines give unless they are told otherwise.
_DEFAULT_BYTES = 64 * MEBIBYTE
_FULL = 0.9
_PAGE = CheckPage(
    why="Loader processes of PyTorch and the transports of NCCL hand data over through /dev/shm. "
    "Container engines make it 64 MiB; a batch that does not fit ends the program with a bus "
    "error, or makes it fall back to slower ways.",
    measured="Size and use of /dev/shm (statvfs). Reported when it is nine tenths full, or no "
    "larger than an engine's default.",
    fix="`--shm-size` of Docker; a memory volume on /dev/shm in Kubernetes: Mooring's pods have "
    "one that counts towards the member's memory (`kubernetes.sharedMemory`).",
    not_when="Data is loaded in the training process itself.",
)


@node_check("node-shm", "/dev/shm is small or full", _PAGE)
def node_shm(facts: NodeFacts) -> Iterator[Found]:
    if facts.shm_bytes is None:
        raise Unknown("no /dev/shm here")
    full = facts.shm_used_bytes >= _FULL * facts.shm_bytes
    if not full and facts.shm_bytes > _DEFAULT_BYTES:
        return
    size, used = facts.shm_bytes / MEBIBYTE, facts.shm_used_bytes / MEBIBYTE
    yield Found(
        says=f"/dev/shm has {size:,.0f} MiB, {used:,.0f} MiB of it used",
        evidence=(
            Figure("size", size, "MiB", "statvfs /dev/shm"),
            Figure("used", used, "MiB", "statvfs /dev/shm"),
        ),
        remedy=Remedy(
            "make it as large as the loaders' batches in flight",
            code="docker run --shm-size=8g …\n",
            where="whoever starts the container",
        ),
        confidence=Confidence.CERTAIN if full else Confidence.POSSIBLE,
        weight=1.0 if full else 0.2,
    )
