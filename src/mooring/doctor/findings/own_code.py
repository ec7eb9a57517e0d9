"""A function of the program, outside of the framework, takes most of the time."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.account import Activity, RankAccount
from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import (
    ACCOUNT,
    Function,
    functions,
    most_have,
    names_of,
    own_share,
    trained,
)
from mooring.doctor.findings.trainers import at_least
from mooring.doctor.registry import CheckPage, run_check

#: A forward pass that is written with operators alone is no call of Python of the framework's: it
#: takes a third of a step, the way back (in the framework) two.
_LEAST = 0.4
#: Less of the framework than this is no training with it: then own code is the training.
_LEAST_FRAMEWORK = 0.03
#: Others run programs of any kind: numpy's own Python is a library's, too, but no training.
_FRAMEWORKS = frozenset({"pytorch", "tensorflow"})
#: Calls of Python's own types in a loop over single things. `sum`, `min` and the like are left out:
#: arrays have them as well.
_BUILT_IN = frozenset(
    {"Counter", "add", "append", "bool", "chr", "count", "decode", "dict", "encode", "endswith"}
    | {"enumerate", "extend", "filter", "find", "float", "format", "get", "hash", "index", "int"}
    | {"isalpha", "isdigit", "isinstance", "items", "iter", "join", "keys", "len", "list", "lower"}
    | {"map", "most_common", "next", "ord", "pairwise", "pop", "range", "replace", "set"}
    | {"setdefault", "sorted", "split", "startswith", "str", "strip", "tuple", "update", "upper"}
    | {"values", "zip"}
)
#: A function with this part of its time in the framework is the training itself.
_TRAINS = 0.1
#: A loop over single numbers is seen at all of its lines; arithmetic on arrays at one or two.
_LEAST_LINES = 3
#: Nobody's training is a loop over single things.
_LEAST_LOOP = 0.15
_HOT = 0.1
_PAGE = CheckPage(
    why="The framework computes in compiled code on all CPUs or on a device; a loop in Python of "
    "the program's own uses one CPU, and everything else waits for it in every step.",
    measured="Looks at the innermost line of the program on the main thread of each trainer, "
    "whatever its functions are called. Reported when one function that does not call the "
    "framework is on a CPU for surely more than 40 % of the time of most trainers, while the "
    "framework is used, too. A program without a framework trains in code of its own: there only "
    "a function is reported whose time is spread over several lines that call nothing but "
    "Python's own types, a loop over single things.",
    fix="Do it with the framework's operations on the whole batch instead of row by row, do it "
    "less often, once before the training, or in other processes.",
    not_when="The function is the model: an operation that the framework does not have.",
)


@run_check("own-code", "A function of the program takes most of the time", _PAGE)
def own_code(facts: RunFacts) -> Iterator[Found]:
    ranks = trained(facts)
    has_framework = facts.job.spec.framework in _FRAMEWORKS
    seen = [
        (rank, function)
        for rank in ranks
        if (function := _outside(rank, has_framework)) is not None
        and at_least(min(1.0, function.share), rank.looks)
        >= (_LEAST_LOOP if _loops_in_python(function) else _LEAST)
    ]
    if not seen or not most_have([rank for rank, _ in seen], ranks):
        return
    worst, function = max(seen, key=lambda one: one[1].share)
    share = min(1.0, function.share)
    least = min(1.0, *(one.share for _, one in seen))
    place = function.line.place
    yield Found(
        says=f"{worst.member}: {place} takes {100 * share:.0f} % of the time, outside of the "
        "framework",
        evidence=(
            *(
                Figure(line.place, 100 * line.share, "%", ACCOUNT, (worst.member,))
                for line in sorted(function.lines, key=lambda line: -line.share)[:3]
            ),
            Figure(
                "in the framework",
                100 * worst.share(Activity.FRAMEWORK, Activity.DEVICE),
                "%",
                ACCOUNT,
                (worst.member,),
            ),
            Figure("looks", worst.looks, "", ACCOUNT, (worst.member,)),
        ),
        remedy=Remedy(
            f"do the work of {function.name}() on whole batches with the framework, less often, "
            "or in other processes",
            where=place,
        ),
        confidence=Confidence.LIKELY,
        weight=min(0.95, share),
        members=names_of(rank for rank, _ in seen),
        # Work that is done faster is still work: half of it may stay.
        gain=Gain.of_freed(least / 2, share, f"half or all of what {function.name}() takes"),
    )


def _outside(rank: RankAccount, has_framework: bool) -> Function | None:
    """The largest function that is not itself the one that trains."""
    if not has_framework or rank.share(Activity.FRAMEWORK, Activity.DEVICE) < _LEAST_FRAMEWORK:
        return next(
            (function for function in functions(rank, own_share) if _loops_in_python(function)),
            None,
        )
    trains = {
        function.name
        for function in functions(rank, lambda line: line.by.get(Activity.FRAMEWORK, 0.0))
        if function.share >= _TRAINS
    }
    return next(
        (function for function in functions(rank, own_share) if function.name not in trains), None
    )


def _loops_in_python(function: Function) -> bool:
    """Its time is spread over lines that call no library: steps of Python, not of arrays."""
    hot = [line for line in function.lines if own_share(line) >= _HOT * function.share]
    called = {name for line in hot for name in line.calls}
    return _BUILT_IN.issuperset(called) and (bool(called) or len(hot) >= _LEAST_LINES)
