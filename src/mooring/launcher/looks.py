"""Looks at the member's own programs, again and again, at moments that fall by chance.

For the first 20 s after the first step up to ten a second, as often as 0.75 % of the CPUs
allow, which all members that run there divide (`part_of_a_cpu`); then half as often. The first
looks of these may cost more, so that a run of some seconds has an account of its steps too. A look
is the end of a short moment, at whose beginning the card's bytes were read, so that it shows
whether bytes move now. Looks of some seconds are one record of the journal (`looks`): places (what
a process does) and for each look which of them it was; see docs/formats.md.
"""

from __future__ import annotations

import os
import random
import time

from . import linux, procfs, sockets, trainers, waited_files
from .looking import WatchedProcess
from .machine import Machine, NetworkCard
from .paths import Paths
from .reading import FileReads
from .sources import SourceLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .contract import Contract
    from .looking import Place, Spot
    from .loop import Loop

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_MOMENT_S = 0.010
_CLOSE_S, _LEAST_PAUSE_S, _MOST_PAUSE_S = 0.08, 0.15, 10.0
#: For so long after the first step, or after the start of programs that report none.
_CLOSELY_S, _SILENT_S = 20.0, 2.0
#: Parts of the CPUs that there are for the member; and the most, of one CPU.
_CLOSE_COST, _COST, _MOST_COST = 0.0075, 0.005, 0.04
#: A member with less than a CPU may take more of it, up to so much of a CPU: some three looks a
#: second, so that a run of ten seconds shows where its time goes.
_SMALL_COST, _SMALL_MEMBER_COST = 0.0075, 0.015
#: The first looks at training: so many, at up to so much of a CPU. An account needs 30 of a rank
#: (`mooring.account.summing.LEAST_LOOKS`); together they cost some tenths of a second.
_FIRST_LOOKS, _FIRST_COST = 40, 0.03
#: The shortest turn on a CPU that the kernel gives.
_TURN_NS = 100000
_RECORD_S = 5.0
_FIND_AGAIN_S = 3.0
_MOST_PLACES, _MOST_CALLS, _MOST_LOOKS = 60, 200, 120
_MOST_AT_ONCE = 4
_STAYS_AFTER = 60
#: Open files are looked at with every third look.
_GLANCE_AT = 3


class LooksWriter:
    """`write` takes each record; `paths` is None where sockets cannot be asked about."""

    def __init__(
        self,
        loop: Loop,
        write: Callable[[str, dict[str, Any]], object],
        paths: Paths | None,
        card: NetworkCard,
        cpus: float,
    ) -> None:
        """`cpus`: how many CPUs there are for the member, its part of those that it shares."""
        self._loop, self._write, self._paths, self._card = loop, write, paths, card
        self._files, self._sources = waited_files.Files(), SourceLines()
        self._machine = Machine()
        self._processes: dict[int, WatchedProcess] = {}
        self._records: dict[int, _Record] = {}
        self._trainers: list[trainers.Trainer] = []
        self._looked: dict[int, int] = {}
        self._found_s = float("-inf")
        self._began_s = self._written_s = time.monotonic()
        self._closely_from_s = self._began_s + _SILENT_S
        self._stepped = False
        self._cost_s = 0.002
        self._cpus = cpus
        self._close_looks = 0
        self._begin_cost_s = 0.0
        self._turn = 0
        self._over = False
        self._moment: tuple[float, int, int] | None = None
        loop.at(self._began_s + random.uniform(0.2, 0.6), self._begin)

    def first_step(self) -> None:
        """The first report of a step: from here on what is seen is training."""
        if not self._stepped and not self._over:
            self._stepped = True
            self._closely_from_s = time.monotonic()
            self._close_looks = 0
            # What was before is start-up: its clock must not count for steps.
            self._flush()

    def stop(self) -> None:
        """The programs have ended: writes what there is."""
        if not self._over:
            self._over = True
            self._flush()
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _begin(self) -> None:
        if self._over:
            return
        began = time.process_time()
        self._moment = self._card.read()
        self._begin_cost_s = time.process_time() - began
        self._loop.at(time.monotonic() + _MOMENT_S, self._look)

    def _look(self) -> None:
        if self._over:
            return
        try:
            self._look_now()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Whatever goes wrong here must not end a training: nobody looks any more."""
        self._over = True
        self._write("looks", {"error": "%s: %s" % (type(error).__name__, str(error)[:200])})

    def _look_now(self) -> None:
        began = time.process_time()
        now_s = time.monotonic()
        if now_s - self._found_s > _FIND_AGAIN_S:
            self._find(now_s)
        received, sent = self._rates()
        queued = self._paths.look(self._pids()) if self._paths is not None else {}
        if self._paths is not None:
            self._files.peers = self._paths.peers
        on_way = sum(queued.values())
        for trainer in self._in_turn():
            process = self._processes.get(trainer.pid)
            record = self._records.get(trainer.pid)
            if process is None or record is None:
                continue
            helpers = [
                self._processes[helper] for helper in trainer.helpers if helper in self._processes
            ]
            place = process.look(helpers)
            if place is not None:
                self._looked[trainer.pid] = self._looked.get(trainer.pid, 0) + 1
                record.add(place, received, sent, on_way)
                if len(record.looks) % _GLANCE_AT == 0:
                    record.reading.glance([trainer.pid, *trainer.helpers])
        if now_s - self._written_s > _RECORD_S:
            self._flush()
        # The first look finds symbols; it is no measure of the next ones.
        cost_s = time.process_time() - began + self._begin_cost_s
        self._cost_s = min(0.7 * self._cost_s + 0.3 * cost_s, 0.1)
        self._loop.at(now_s + self._pause_s(now_s), self._begin)

    def _pause_s(self, now_s: float) -> float:
        closely = self._closely_from_s <= now_s < self._closely_from_s + _CLOSELY_S
        self._close_looks += closely
        least_s = _CLOSE_S if closely else _LEAST_PAUSE_S
        first = closely and self._close_looks <= _FIRST_LOOKS * self._rounds()
        pause_s = max(least_s, self._cost_s / part_of_a_cpu(self._cpus, closely, first))
        return min(_MOST_PAUSE_S, pause_s * random.uniform(0.5, 1.5))

    def _rates(self) -> tuple[int, int]:
        """Bytes a second that came in and went out during the moment, in thousands."""
        before, after = self._moment, self._card.read()
        if before is None or after is None or after[0] <= before[0]:
            return 0, 0
        span_s = after[0] - before[0]
        return tuple(  # type: ignore[return-value]
            max(0, int((after[way] - before[way]) / span_s / 1000)) for way in (1, 2)
        )

    def _in_turn(self) -> list[trainers.Trainer]:
        """All, or of many some in turn: a look must stay short."""
        if len(self._trainers) <= _MOST_AT_ONCE:
            return self._trainers
        self._turn = (self._turn + _MOST_AT_ONCE) % len(self._trainers)
        return (self._trainers + self._trainers)[self._turn : self._turn + _MOST_AT_ONCE]

    def _rounds(self) -> int:
        """How many looks it takes until each trainer was looked at once."""
        return max(1, -(-len(self._trainers) // _MOST_AT_ONCE))

    def _pids(self) -> list[int]:
        return [trainer.pid for trainer in self._trainers]

    def _find(self, now_s: float) -> None:
        self._found_s = now_s
        self._trainers = trainers.find(self._only_waits)
        wanted = [pid for trainer in self._trainers for pid in [trainer.pid, *trainer.helpers[:4]]]
        for pid in list(self._processes):
            if pid not in wanted:
                self._processes.pop(pid).close()
        for pid in wanted:
            if pid not in self._processes:
                self._processes[pid] = WatchedProcess(pid, self._files, self._sources)
            else:
                self._processes[pid].retry()
        for place, one in enumerate(self._trainers):
            if one.pid not in self._records:
                self._records[one.pid] = _Record(one.pid, place, FileReads(self._files))
            record = self._records[one.pid]
            record.helpers = len(one.helpers)
            record.reading.count([one.pid, *one.helpers])

    def _only_waits(self, pid: int) -> bool:
        """Who was seen at work for a while stays a trainer, also while it ends its loaders."""
        if self._looked.get(pid, 0) >= _STAYS_AFTER:
            return False
        if pid not in self._processes:
            self._processes[pid] = WatchedProcess(pid, self._files, self._sources)
        return self._processes[pid].waits_for_children()

    def _flush(self) -> None:
        try:
            self._write_records()
        except Exception as error:
            self._give_up(error)

    def _write_records(self) -> None:
        self._written_s = time.monotonic()
        shared: dict[str, Any] = {"card": self._card.name, "machine": self._machine.changes()}
        if self._paths is not None:
            shared["tcp"] = self._paths.changes()
        helpers = {trainer.pid: trainer.helpers for trainer in self._trainers}
        for pid, record in list(self._records.items()):
            record.reading.count([pid, *helpers.get(pid, [])])
            process = self._processes.get(pid)
            if record.looks:
                told = dict(record.document(), **shared)
                if process is not None:
                    told["python_threads"] = process.python_threads
                    if process.has_mpi():
                        told["mpi"] = True
                    if not process.is_python:
                        told["refused" if process.refused else "no_python"] = True
                self._write("looks", told)
                # What is of the whole member stands in one record only.
                shared = {"card": self._card.name}
            if process is None:
                del self._records[pid]
            else:
                self._records[pid] = record.next(FileReads(self._files))
                self._records[pid].reading.count([pid, *helpers.get(pid, [])])


def part_of_a_cpu(cpus: float, closely: bool, first: bool = False) -> float:
    """What looks may cost a member that has so many CPUs; `first`: those that an account needs.

    >>> part_of_a_cpu(2.0, closely=True), part_of_a_cpu(2.0, closely=False)
    (0.015, 0.01)
    >>> part_of_a_cpu(0.5, closely=True)
    0.0075
    >>> part_of_a_cpu(0.5, closely=True, first=True)
    0.03
    """
    if not closely:
        return min(_MOST_COST, _COST * cpus)
    least = _FIRST_COST if first else min(_SMALL_COST, _SMALL_MEMBER_COST * cpus)
    return min(_MOST_COST, max(_CLOSE_COST * cpus, least))


def begin(
    loop: Loop,
    write: Callable[[str, dict[str, Any]], object],
    contract: Contract,
    addresses: dict[str, list[str]],
) -> LooksWriter | None:
    """None where there is no /proc to look into."""
    if not procfs.SUPPORTED or not linux.AVAILABLE:
        return None
    linux.take_short_turns(_TURN_NS)
    peers = list(sockets.peer_addresses(contract.peers, addresses))
    own = [
        sockets.pack_address(address) for member, address, _ in peers if member == contract.member
    ]
    cpus = len(os.sched_getaffinity(0)) / contract.look_sharers
    return LooksWriter(loop, write, Paths(sockets.PeerTraffic(peers)), NetworkCard(own), cpus)


class _Record:
    """Looks at one process since the last record."""

    def __init__(self, pid: int, rank: int, reading: FileReads) -> None:
        self.pid, self.rank, self.helpers = pid, rank, 0
        self.reading = reading
        self.looks: list[list[int]] = []
        self._began_s = self._last_s = time.time()
        self._places: dict[Place, int] = {}
        self._clock = self._last_clock = _clock(pid)

    def next(self, reading: FileReads) -> _Record:
        record = _Record(self.pid, self.rank, reading)
        record.helpers = self.helpers
        return record

    def add(self, place: Place, received: int, sent: int, queued: int) -> None:
        number = self._places.get(place)
        if number is None and len(self._places) < _MOST_PLACES:
            number = self._places[place] = len(self._places)
        self._last_clock = _clock(self.pid) or self._last_clock
        self._last_s = time.time()
        if len(self.looks) < _MOST_LOOKS:
            ms = int((time.time() - self._began_s) * 1000)
            number = -1 if number is None else number
            self.looks.append([ms, number, received, sent, queued // 1000])

    def document(self) -> dict[str, Any]:
        calls: dict[Any, int] = {}
        places = [self._shown(place, calls) for place in self._places]
        clock = [round(max(0.0, b - a), 4) for a, b in zip(self._clock, self._last_clock)]
        return {
            "pid": self.pid,
            "r": self.rank,
            "from": round(self._began_s, 3),
            "span_s": round(self._last_s - self._began_s, 3),
            "looks": self.looks,
            "places": places,
            "calls": [list(call) for call in calls],
            # Seconds that the main thread ran, was ready without a CPU, waited for a disk; and
            # that all threads of the process ran.
            "main": clock,
            "helpers": self.helpers,
            "io": self.reading.document(self.pid),
        }

    @staticmethod
    def _shown(place: Place, calls: dict[Any, int]) -> dict[str, Any]:
        main, kind, helper, running, members = place

        def spot(at: Spot) -> list[Any]:
            numbers = []
            for call in at[3]:
                if call not in calls and len(calls) < _MOST_CALLS:
                    calls[call] = len(calls)
                numbers.append(calls.get(call, -1))
            return [at[0], at[1], list(at[2]), numbers]

        shown: dict[str, Any] = {"main": spot(main)}
        if helper is not None:
            shown["by"], shown["helper"] = kind, spot(helper)
        if running:
            shown["running"] = running
        if members:
            shown["at"] = list(members)
        return shown


def _clock(pid: int) -> list[float]:
    """Seconds that the main thread ran, was ready to, and waited for a disk (if the kernel counts
    that), and that the whole process ran."""
    folder = "/proc/%d/task/%d/" % (pid, pid)
    words = procfs.read(folder + "schedstat").split()
    fields = procfs.stat_fields(procfs.read(folder + "stat"))
    if len(words) < 2:
        return []
    disk = int(fields[39]) * _TICK_S if len(fields) > 39 else 0.0
    whole = procfs.stat_fields(procfs.read("/proc/%d/stat" % pid))
    used = (int(whole[11]) + int(whole[12])) * _TICK_S if len(whole) > 12 else 0.0
    return [int(words[0]) / 1e9, int(words[1]) / 1e9, disk, used]
