"""Libraries that count CPUs would count more than this place has."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import NodeFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import whole_cpus
from mooring.doctor.registry import CheckPage, node_check

#: CPUs that a library would count against those it can use; below this a few threads more.
_TIMES = 2.0
_VARIABLE = "OMP_NUM_THREADS"
_PAGE = CheckPage(
    why="Numeric libraries start one thread for each CPU that they see. A container that may use "
    "a part of a large machine sees all of it, unless its CPU set is restricted, and its threads "
    "wait for each other.",
    measured="CPUs online, the CPUs of this process's affinity and the tightest CPU quota of its "
    "control groups, read as a member's launcher reads them; and what OMP_NUM_THREADS says, which "
    "counts more than CPUs do. Reported when a library would start at least twice as many threads "
    "as can run.",
    fix="Start the program by Mooring, whose launcher sets the thread counts; or set the "
    "variables to what can be used.",
)
_SNIPPET = """export OMP_NUM_THREADS={threads} MKL_NUM_THREADS={threads}
export OPENBLAS_NUM_THREADS={threads}
export TF_NUM_INTRAOP_THREADS={threads} TF_NUM_INTEROP_THREADS={interop}
"""


@node_check("node-threads", "Libraries would start too many threads here", _PAGE)
def node_threads(facts: NodeFacts) -> Iterator[Found]:
    usable = float(len(facts.allowed_cpus))
    if facts.quota_millis is not None:
        usable = min(usable, facts.quota_millis / 1000)
    threads = whole_cpus(usable)
    told = facts.thread_env.get(_VARIABLE)
    # A list counts by level of nesting; what is no number is not looked at by libraries either.
    first = (told or "").split(",")[0].strip()
    would = int(first) if first.isdecimal() else facts.online_cpus
    if would < _TIMES * max(1.0, usable):
        return
    if told is None:
        says = f"a library would see {facts.online_cpus} CPUs where {usable:g} can be used"
    else:
        says = f"{_VARIABLE} is {told} where {usable:g} CPUs can be used"
    evidence = [
        *([Figure(_VARIABLE, told, "", "the environment")] if told is not None else []),
        Figure("CPUs online", facts.online_cpus, "", "/sys/devices/system/cpu/online"),
        Figure("CPUs allowed", len(facts.allowed_cpus), "", "sched_getaffinity"),
    ]
    if facts.quota_millis is not None:
        evidence.append(Figure("quota", facts.quota_millis / 1000, "CPUs", "control group"))
    yield Found(
        says=says,
        evidence=tuple(evidence),
        remedy=Remedy(
            "set thread counts, or start programs by `moor run`, which does",
            code=_SNIPPET.format(threads=threads, interop=max(3, threads)),
            where="the environment of the program",
        ),
        confidence=Confidence.LIKELY,
        weight=0.5,
        gain=Gain(1.0, 2.6, "benchmarks/threads.py: auto ÷ 80 threads on 2 CPUs"),
    )
