"""How long nobody has made a step, and from when on that is too long. Pure.

Until the first step of an attempt, and in programs that report no steps, anything counts that shows
work: output, CPU time, bytes. So start-up and compilation, which compute, are no stall.
"""

from __future__ import annotations

from mooring.wire import Record
from mooring.wire.members import Ready, Running, Step
from mooring.wire.samples import Sample

#: Shorter pauses are checkpoints, evaluations and noise of a busy machine.
LEAST_S = 30.0
#: Without steps less is known of what is usual.
LEAST_WITHOUT_STEPS_S = 120.0
#: So many times the longest pause between two reports so far.
_TIMES_LONGEST = 5.0
#: A member that wants more than this part of a CPU, or moves more, is at work.
_BUSY_CPUS = 0.2
_BUSY_BYTES_PER_S = 10_000.0
#: The pause after the first report often has compilation in it: it counts until others are known.
_FIRST_COUNTS = 5


class ProgressTracker:
    """Call `add` with what members' launchers wrote and `output` with how much was printed."""

    def __init__(self) -> None:
        self._start = (-1, -1)
        self._last_s: float | None = None
        self._stepped = False
        self._pauses = 0
        self._steps = 0
        self._pauses_s = 0.0
        self._first_s = 0.0
        self._longest_s = 0.0
        self._done = 0
        self._total: int | None = None
        self._samples: dict[str, tuple[float, float, float]] = {}
        self._printed = 0

    @property
    def last_s(self) -> float | None:
        """When somebody last got on (seconds since the epoch of Unix); None: nobody has started."""
        return self._last_s

    @property
    def stepped(self) -> bool:
        """Whether steps were reported since the last start."""
        return self._stepped

    @property
    def complete(self) -> bool:
        """Whether all steps that were announced are done: what follows is the end."""
        return self._total is not None and self._done >= self._total

    @property
    def usual_s(self) -> float | None:
        """The mean time of a step, of those of whoever reports."""
        return self._pauses_s / self._steps if self._steps else None

    @property
    def limit_s(self) -> float:
        """From when on no step is worth a look."""
        if not self._stepped:
            return LEAST_WITHOUT_STEPS_S
        longest_s = self._longest_s
        if self._pauses <= _FIRST_COUNTS:
            longest_s = max(longest_s, self._first_s)
        return max(LEAST_S, _TIMES_LONGEST * longest_s)

    def add(self, member: str, record: Record) -> None:
        match record:
            case Ready():
                # Members of one epoch start together; one that starts again holds the others up.
                if record.start != self._start:
                    self._start = record.start
                    self._stepped, self._done, self._total = False, 0, None
                self._samples.pop(member, None)
                self._moved(record.t)
            case Running():
                self._moved(record.t)
            case Step():
                self._step(record)
            case Sample():
                self._sample(member, record)

    def output(self, total_bytes: int, at_s: float) -> None:
        """All that members have printed so far."""
        if total_bytes != self._printed:
            self._printed = total_bytes
            if not self._stepped:
                self._moved(at_s)

    def _step(self, step: Step) -> None:
        if self._stepped and self._last_s is not None:
            pause_s = max(0.0, step.t - self._last_s)
            self._pauses += 1
            self._pauses_s += pause_s
            # The launcher sums up steps that come fast.
            self._steps += step.count
            if self._pauses == 1:
                self._first_s = pause_s
            else:
                self._longest_s = max(self._longest_s, pause_s)
        self._stepped = True
        self._done = max(self._done, step.step or 0)
        self._total = step.total if step.total is not None else self._total
        self._moved(step.t)

    def _sample(self, member: str, sample: Sample) -> None:
        # Who is ready to run and has no CPU is at work, on a busy machine.
        cpu_s = sample.cpu_s + (sample.wait_s or 0.0)
        moved = float(sample.rx_bytes + sample.tx_bytes)
        before = self._samples.get(member)
        self._samples[member] = (sample.t, cpu_s, moved)
        if self._stepped or before is None or sample.t <= before[0]:
            return
        span_s = sample.t - before[0]
        busy = (cpu_s - before[1]) / span_s >= _BUSY_CPUS
        if busy or (moved - before[2]) / span_s >= _BUSY_BYTES_PER_S:
            self._moved(sample.t)

    def _moved(self, at_s: float) -> None:
        self._last_s = at_s if self._last_s is None else max(self._last_s, at_s)
