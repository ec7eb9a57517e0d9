"""Shared memory that ran full during a run."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import MEBIBYTE, SAMPLES, by_role, mebibytes, names
from mooring.doctor.registry import CheckPage, Unknown, run_check
from mooring.spec.edit import Change

_FULL = 0.9
_PAGE = CheckPage(
    why="Loader processes of PyTorch and the transports of NCCL hand data over through /dev/shm. "
    "What does not fit ends the program with a bus error, or makes it fall back to slower ways.",
    measured="The highest use of /dev/shm in all samples against its size (statvfs). Nine tenths "
    "are reported.",
    fix="On Kubernetes `kubernetes.sharedMemory`, which counts towards the member's memory; with "
    "Docker `--shm-size`; otherwise remount it larger. Or fewer loader processes and batches in "
    "flight.",
)


@run_check("shm-full", "/dev/shm is full", _PAGE)
def shm_full(facts: RunFacts) -> Iterator[Found]:
    if not any(member.shm_bytes for member in facts.members):
        raise Unknown("the samples do not tell")
    full = [
        member
        for member in facts.members
        if member.shm_bytes and member.shm_used_bytes >= _FULL * member.shm_bytes
    ]
    for role, members in by_role(full):
        one = members[0]
        wanted = mebibytes(4 * one.shm_bytes)
        yield Found(
            says=f"{one.name}: {100 * one.shm_used_bytes / one.shm_bytes:.0f} % of /dev/shm in use",
            evidence=(
                Figure("used", one.shm_used_bytes / MEBIBYTE, "MiB", SAMPLES, names(members)),
                Figure("size", one.shm_bytes / MEBIBYTE, "MiB", SAMPLES, names(members)),
            ),
            remedy=Remedy(
                f"make it {wanted}: four times as large",
                (Change(("spec", "roles", role, "kubernetes", "sharedMemory"), wanted),),
                "mount -o remount,size=8g /dev/shm\n",
                "without Kubernetes: the machine, or whoever starts the container",
            ),
            confidence=Confidence.CERTAIN,
            weight=1.0,
            members=names(members),
        )
