"""What a main thread did at each look: an activity, by state, system call and who works meanwhile.

Names of functions are asked only for what no state shows: that a call is a collective (it spins or
waits on a lock), and that what is loaded is input. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mooring.account.looks import Place, RankLooks, SampledFrame, Spot
from mooring.account.types import Activity
from mooring.stacks.categories import INPUT, Category
from mooring.stacks.classify import ClassifiedStack, Frame, Stack, classify

#: At the other end is nobody of the job: storage, a tracker of experiments.
OUTSIDE = "outside"
#: At the other end is one of several members that have the same address.
SOMEBODY = "other"
_PHASES = frozenset({Category.CHECKPOINT, Category.LOGGING, Category.EVALUATION})
_ON_FILES = frozenset({"read", "write", "fsync", "open", "lock", "uring"})
#: Lines that wait for a device of the process.
_FOR_DEVICE = frozenset({"synchronize", "item", "cpu", "numpy", "tolist", "block_until_ready"})
_PYTHON_WAITS = ("~python/threading.py", "~python/queue.py", "~python/concurrent/")
_QUEUES = frozenset({"~python/queue.py", "~python/multiprocessing/queues.py"})
_OF_MPI = frozenset({
    "send", "ssend", "bsend", "rsend", "recv", "mrecv", "sendrecv", "sendrecv_replace", "probe",
    "mprobe", "iprobe", "wait", "waitall", "waitany", "waitsome", "test", "testall", "barrier",
    "bcast", "scatter", "scatterv", "gather", "gatherv", "allgather", "allgatherv", "alltoall",
    "alltoallv", "alltoallw", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block",
    "scan", "exscan", "neighbor_allgather", "neighbor_alltoall",
})  # fmt: skip
_LIBRARY = "~"
_STANDARD = "~python/"


@dataclass(frozen=True)
class Doing:
    """One look, understood. A wait for other members is OTHERS until the card has been asked."""

    activity: Activity
    on_cpu: bool = False
    """The main thread itself ran, or was ready to: its clock knows how long that was in all."""
    in_threads: bool = False
    """Other threads of the process ran."""
    spins: bool = False
    waits_for: tuple[str, ...] = ()
    line: SampledFrame | None = None
    thread: str = ""
    phase: Category | None = None
    file_system: str = ""
    for_thread: bool = False
    """It waited while another Python thread ran."""
    otherwise: Doing | None = None
    """What it would be if those threads had not run: they are seen running more often than they
    do, where what wakes them wakes the launcher too."""


@dataclass(frozen=True)
class ProcessFacts:
    """What is known of a process beside its looks."""

    serves: bool = False
    has_device: bool = False
    has_python: bool = True
    has_peers: bool = False
    has_mpi: bool = False
    helpers: int = 0


def divide(seen: RankLooks, process: ProcessFacts) -> list[Doing]:
    """What each look shows, in their order."""
    places = list(dict.fromkeys(look.place for look in seen.looks if look.place is not None))
    categories = [one.category for one in categories_of(places)]
    helpers = [one.category for one in classify([_frames(one.helper) for one in places])]
    known = {
        place: _doing(place, main, helper, process)
        for place, main, helper in zip(places, categories, helpers, strict=True)
    }
    unseen = Doing(Activity.UNSEEN)
    return [unseen if look.place is None else known[look.place] for look in seen.looks]


def categories_of(places: Sequence[Place]) -> list[ClassifiedStack]:
    """What each main thread was about, as names tell, and where in the program."""
    return classify([_frames(place.main) for place in places])


def _doing(place: Place, category: Category, of_helper: Category, process: ProcessFacts) -> Doing:
    main = place.main
    base = Doing(
        Activity.UNSEEN,
        line=main.own_call,
        phase=category if category in _PHASES else None,
        file_system=main.file_system,
    )
    collective = category is Category.COMMUNICATION or (process.has_mpi and _calls_mpi(main))
    if main.letter == "R":
        if collective:
            return replace(base, activity=Activity.OTHERS, on_cpu=True, spins=True)
        return replace(base, activity=_computing(main, category, process), on_cpu=True)
    if main.call == "memory":
        return replace(base, activity=_computing(main, category, process))
    if main.call == "fault" or (main.call in _ON_FILES and (main.file_system or not main.at)):
        return replace(base, activity=_or_input(Activity.DISK, category))
    if main.call == "write" and "pipe" in main.at:
        # Its output is not taken as fast as it comes.
        return replace(base, activity=Activity.DISK, phase=Category.LOGGING)
    if main.letter == "D":
        return replace(base, activity=_or_input(Activity.DISK, category))
    if "device" in main.at:
        return replace(base, activity=Activity.DEVICE)
    if main.call == "sleep":
        activity = Activity.OTHERS if collective else _or_input(Activity.SLEEP, category)
        return replace(base, activity=activity)
    if collective:
        waits_for = _members(main.peers or place.members)
        return replace(base, activity=Activity.OTHERS, waits_for=waits_for)
    if main.peers == (OUTSIDE,):
        return replace(base, activity=Activity.INPUT, waits_for=(OUTSIDE,))
    if main.peers and main.call != "epoll":
        return replace(base, activity=Activity.OTHERS, waits_for=_members(main.peers))
    if category in INPUT or _takes_from_queue(main):
        return _with_helper_line(replace(base, activity=Activity.INPUT), place)
    found = _by_helper(base, place, of_helper, process)
    if found.in_threads:
        without = replace(place, by="", helper=None, running=0)
        return replace(found, otherwise=_by_helper(base, without, of_helper, process))
    return found


def _by_helper(base: Doing, place: Place, of_helper: Category, process: ProcessFacts) -> Doing:
    """The main thread waits within its process: its time is what the others do."""
    main, helper = place.main, place.helper
    if helper is not None and place.by == "process":
        if main.call == "wait":
            activity = Activity.SLEEP if helper.call == "sleep" else Activity.OWN
            return replace(base, activity=activity)
        return _with_helper_line(replace(base, activity=Activity.INPUT), place)
    if helper is not None and helper.letter == "R":
        if place.by == "native":
            return replace(base, activity=Activity.FRAMEWORK, in_threads=True)
        if of_helper is Category.COMMUNICATION:
            return replace(base, activity=Activity.OTHERS, waits_for=_members(place.members))
        found = replace(
            base,
            activity=_computing(helper, of_helper, process),
            in_threads=True,
            for_thread=True,
        )
        return _with_helper_line(found, place)
    if helper is not None and helper.letter == "D":
        activity = _or_input(Activity.DISK, of_helper)
        return _with_helper_line(replace(base, activity=activity), place)
    # Threads that sleep are many (watchdogs, progress bars): believed only where Python waits.
    in_python = bool(main.stack) and main.stack[0].file.startswith(_PYTHON_WAITS)
    if helper is not None and in_python and helper.own_call is not None:
        if helper.call == "sleep":
            return _with_helper_line(
                replace(base, activity=_or_input(Activity.SLEEP, of_helper)), place
            )
        if helper.peers == (OUTSIDE,):
            return _with_helper_line(replace(base, activity=Activity.INPUT), place)
        if helper.peers:
            waits_for = _members(helper.peers)
            return replace(base, activity=Activity.OTHERS, waits_for=waits_for)
        if helper.file_system:
            return _with_helper_line(
                replace(base, activity=_or_input(Activity.DISK, of_helper)), place
            )
    if place.members or main.peers:
        waits_for = _members(place.members or main.peers)
        return replace(base, activity=Activity.OTHERS, waits_for=waits_for)
    if process.helpers and ("pipe" in main.at or "local" in main.at):
        return replace(base, activity=Activity.INPUT)
    if process.serves or process.has_peers:
        return replace(base, activity=Activity.OTHERS)
    return base


def _calls_mpi(spot: Spot) -> bool:
    """mpi4py is native: of its calls there is only the line of the program that makes them."""
    innermost = next(iter(spot.stack), None)
    if innermost is None or not innermost.own:
        return False
    return any(
        call.rpartition(".")[2].lower() in _OF_MPI for call in innermost.calls if "." in call
    )


def _takes_from_queue(spot: Spot) -> bool:
    """Waits for what another thread or process puts into a queue: that one makes its input."""
    return any(frame.file in _QUEUES and frame.function.endswith("get") for frame in spot.stack[:4])


def _computing(spot: Spot, category: Category, process: ProcessFacts) -> Activity:
    if category in INPUT:
        return Activity.INPUT
    line = spot.own_call
    if (
        process.has_device
        and line is not None
        and _FOR_DEVICE & {call.rpartition(".")[2] for call in line.calls}
    ):
        return Activity.DEVICE
    if not spot.stack:
        return Activity.FRAMEWORK if process.has_python else Activity.OWN
    # What the standard library does (json, copy, random) is the program's own choice.
    inner = next((frame for frame in spot.stack if not frame.file.startswith(_STANDARD)), None)
    return Activity.OWN if inner is None or inner.own else Activity.FRAMEWORK


def _or_input(activity: Activity, category: Category) -> Activity:
    return Activity.INPUT if category in INPUT else activity


def _with_helper_line(doing: Doing, place: Place) -> Doing:
    helper = place.helper
    if helper is None or helper.own_call is None:
        return doing
    return replace(doing, line=helper.own_call, thread=place.by, file_system=helper.file_system)


def _members(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in (SOMEBODY, OUTSIDE))


def _frames(spot: Spot | None) -> Stack:
    """As the table of categories reads them: from the outermost inwards, whole paths."""
    return tuple(_frame(frame) for frame in reversed(spot.stack)) if spot is not None else ()


def _frame(call: SampledFrame) -> Frame:
    file = call.file
    if file.startswith("~<"):
        file = file[1:]
    elif file.startswith(_STANDARD):
        file = "/lib/python3/" + file.removeprefix(_STANDARD)
    elif file.startswith(_LIBRARY):
        file = "/site-packages/" + file[1:]
    text = " ".join(f"{name if '.' in name else f'.{name}'}(" for name in call.calls)
    return Frame(call.function, file, call.line, text)
