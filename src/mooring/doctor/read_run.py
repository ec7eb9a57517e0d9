"""A run's directory to facts: the job, the plan, the launchers' samples, the nodes' counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from mooring.account import Account
from mooring.account.looks import read_looks
from mooring.doctor.facts import CpuPlace, MemberFacts, RunFacts, Use
from mooring.doctor.read_account import read_account
from mooring.doctor.read_end import read_end, read_last_words
from mooring.doctor.read_places import read_cards, read_cells, read_nics
from mooring.doctor.read_program import read_traits
from mooring.doctor.read_stacks import read_stacks
from mooring.doctor.read_stall import read_stall
from mooring.doctor.read_surroundings import (
    LEAST_SAMPLES,
    Window,
    read_cards_of_nodes,
    read_machine,
)
from mooring.doctor.told import mapping as _mapping
from mooring.doctor.told import number as _number
from mooring.doctor.told import numbers as _numbers
from mooring.doctor.told import whole as _whole
from mooring.frameworks import expand
from mooring.model.errors import BadInput
from mooring.model.member import Gang, MemberId
from mooring.model.numbers import whole_number
from mooring.record import RunRecord, read_lines
from mooring.record.journal import Line
from mooring.record.plan_file import Holding, read_holdings
from mooring.spec import load_job
from mooring.variables.from_run import parts_of

_LEAST_REPORTS = 5
_REFUSED = (
    "the launcher may not read the trainers: kernel.yama.ptrace_scope, or a container's rules"
)
_NO_WINDOW = (float("-inf"), float("inf"))


def read_run(run: RunRecord, last_s: float | None = None) -> RunFacts:
    """All of a run, or only its last seconds. Raises BadInput if it has no job or plan yet."""
    job = load_job(run.job_file)
    gang = expand(job, run.info.source or "job")
    known = {member.id for member in gang.members}
    holdings = {one.member: one for one in read_holdings(run.plan_file) if one.member in known}
    lines = {one.name: list(read_lines(run.sample_file(one.name))) for one in holdings}
    if not holdings:
        raise BadInput.at("moor doctor", run.info.id, "no plan", "a run that was started")
    window = window_of(lines.values(), last_s)
    members = tuple(
        member_facts(name, holding, gang, lines[name.name], window)
        for name, holding in holdings.items()
    )
    rates = [one.examples_per_s for one in members if one.examples_per_s is not None]
    note = _stacks_note(run.events_file)
    nics = read_cards_of_nodes(run.events_file, window)
    steps_per_s = max(
        (one.steps_per_s for one in members if one.steps_per_s is not None), default=None
    )
    cpus: dict[str, frozenset[int]] = {}
    for holding in holdings.values():
        cpus[holding.slot.node] = cpus.get(holding.slot.node, frozenset()) | set(holding.slot.cpus)
    return RunFacts(
        run=run.info.id,
        job=job,
        duties=gang.duty_by_role,
        members=members,
        nics=nics,
        machine=read_machine(run.events_file, window),
        node_cpus=cpus,
        topology=_topology(run.events_file),
        examples_per_s=sum(rates) if rates else None,
        stacks_note=note,
        steps_per_s=steps_per_s,
        variables=tuple(parts_of([line for each in lines.values() for line in each])),
        source=str(run.root),
        program=read_traits(line for each in lines.values() for line in each),
        last_words=read_last_words(run),
        end=read_end(run, lines),
        stall=read_stall(read_lines(run.events_file), _named(lines), str(run.root)),
        account=Account(note=note)
        if note
        else read_account(members, gang.duty_by_role, steps_per_s, nics),
    )


def _named(lines: Mapping[str, list[Line]]) -> dict[str, list[Line]]:
    """Without evaluators, who may wait for long."""
    return {name: one for name, one in lines.items() if not name.startswith("evaluator-")}


def _own_window(lines: list[Line], window: Window) -> Window:
    """Without the time in which this member was still starting while another trained already."""
    steps = [_number(line, "t") for line in lines if line.get("kind") == "step"]
    return max(window[0], min(steps, default=window[0])), window[1]


def _stacks_note(events: Path) -> str:
    told = (line for line in read_lines(events) if line.get("kind") == "stacks")
    return str(next(told, {}).get("reason", ""))


def window_of(members: Iterable[list[Line]], last_s: float | None) -> Window:
    """The time in which the job trained, as its steps tell; its last seconds, if asked for."""
    steps, ends = [], []
    for lines in members:
        times = [(line.get("kind"), _number(line, "t")) for line in lines]
        steps += [at_s for kind, at_s in times if kind == "step"]
        ends += [at_s for kind, at_s in times if kind == "sample"]
    low, high = _NO_WINDOW
    # One report, or reports of one instant, span no time.
    if steps and max(steps) - min(steps) >= LEAST_SAMPLES - 1:
        low, high = min(steps), max(steps)
    if last_s is not None and ends:
        low, high = max(low, max(ends) - last_s), max(ends)
    return low, high


def member_facts(
    member: MemberId, holding: Holding, gang: Gang, lines: list[Line], window: Window
) -> MemberFacts:
    ready: Line = next((line for line in reversed(lines) if line.get("kind") == "ready"), {})
    budget = _mapping(ready, "budget")
    sources = _mapping(budget, "sources")
    samples = _last_attempt([line for line in lines if line.get("kind") == "sample"])
    inside = [line for line in samples if window[0] <= _number(line, "t") <= window[1]]
    if len(inside) < LEAST_SAMPLES:
        # A member that had ended, or a window shorter than its samples: all that there is.
        inside = samples
    known = inside or [{}]
    wanted = next(one for one in gang.members if one.id == member)
    notes = ready.get("notes")
    seen: dict[int, int] = {}
    for sample in inside:
        for cpu, threads in _mapping(sample, "last_cpus").items():
            number = whole_number(cpu)
            if number is not None and isinstance(threads, int):
                seen[number] = seen.get(number, 0) + threads
    looks = tuple(read_looks(lines, _own_window(lines, window)))
    exit_line: Line = next((line for line in reversed(lines) if line.get("kind") == "exit"), {})
    return MemberFacts(
        name=member.name,
        role=member.role,
        node=holding.slot.node,
        held_cpus=frozenset(holding.slot.cpus),
        exclusive=holding.slot.exclusive,
        asked_millis=holding.resources.cpu_millis,
        memory_limit_bytes=_whole(budget, "memory_bytes"),
        memory_enforced="memory_limit_bytes" in sources,
        budget_millis=_whole(budget, "cpu_millis"),
        quota_millis=_whole(sources, "quota_millis"),
        threads_told=_whole(budget, "threads"),
        threads_kept={name: str(text) for name, text in _mapping(sources, "kept").items()},
        processes=wanted.processes,
        allowed_cpus=_allowed(inside) or frozenset(_numbers(budget, "cpus")),
        seen_cpus=seen,
        threads=round(median([_number(sample, "threads") for sample in known])),
        peak_memory_bytes=max(
            int(_number(sample, name))
            for sample in (samples or [{}])
            for name in ("rss_bytes", "peak_rss_bytes")
        ),
        shm_used_bytes=max(int(_number(sample, "shm_used_bytes")) for sample in (samples or [{}])),
        shm_bytes=int(_number(known[-1], "shm_bytes")),
        use=_use(inside),
        memory=tuple(
            (_number(sample, "t"), int(_number(sample, "rss_bytes")))
            for sample in inside
            if _number(sample, "rss_bytes") > 0
        ),
        steps=sum(int(_number(line, "n")) or 1 for line in lines if line.get("kind") == "step"),
        steps_per_s=_steps_per_s(lines, window),
        examples_per_s=_examples_per_s(lines, window),
        pinned=ready.get("pinned") is not False,
        pinning_note=next(
            (str(note) for note in notes if "pinned" in str(note) or "asked for CPUs" in str(note)),
            "",
        )
        if isinstance(notes, list)
        else "",
        looks=looks,
        stacks=read_stacks(looks),
        stacks_note=_REFUSED if any(one.refused for one in looks) else "",
        gpus=tuple(read_cards(inside)),
        memory_cells=read_cells(samples),
        nics=tuple(read_nics(inside)),
        gpu_error=str(samples[-1].get("gpu_error") or "") if samples else "",
        out_of_memory="over its memory limit" in str(exit_line.get("reason", "")),
    )


def _allowed(samples: list[Line]) -> frozenset[int]:
    """As the last sample that saw a process tells: the very last is taken when all have ended."""
    told = (_numbers(sample, "cpus") for sample in reversed(samples))
    return frozenset(next((cpus for cpus in told if cpus), ()))


def _last_attempt(samples: list[Line]) -> list[Line]:
    """A restart counts from zero: totals of two attempts cannot be compared."""
    if not samples:
        return samples
    attempt = (samples[-1].get("epoch"), samples[-1].get("attempt"))
    return [line for line in samples if (line.get("epoch"), line.get("attempt")) == attempt]


def _use(samples: list[Line]) -> Use | None:
    if len(samples) < LEAST_SAMPLES:
        return None
    first, last = samples[0], samples[-1]
    span_s = _number(last, "t") - _number(first, "t")
    if span_s <= 0:
        return None

    def grown(name: str) -> float:
        return max(0.0, _number(last, name) - _number(first, name))

    return Use(
        span_s=span_s,
        samples=len(samples),
        cpu_s=grown("cpu_s"),
        wait_s=grown("wait_s") if "wait_s" in last else None,
        switches=int(grown("ctx_vol") + grown("ctx_invol")),
        throttled_s=grown("throttled_s"),
        throttled_periods=int(grown("nr_throttled")),
        periods=int(grown("nr_periods")),
        received_bytes=int(grown("rx_bytes")),
        sent_bytes=int(grown("tx_bytes")),
    )


def _examples_per_s(lines: list[Line], window: Window) -> float | None:
    steps = [
        (_number(line, "t"), _number(line, "examples"))
        for line in lines
        if line.get("kind") == "step" and window[0] <= _number(line, "t") <= window[1]
    ]
    if len(steps) < 2 or steps[-1][0] <= steps[0][0]:
        return None
    done = sum(examples for _, examples in steps[1:])
    return done / (steps[-1][0] - steps[0][0]) if done else None


def _steps_per_s(lines: list[Line], window: Window) -> float | None:
    """Of the local process that reports most: ranks step together."""
    rates = []
    steps = [line for line in lines if line.get("kind") == "step"]
    for rank in {_number(line, "r") for line in steps}:
        told = [
            line
            for line in steps
            if _number(line, "r") == rank and window[0] <= _number(line, "t") <= window[1]
        ]
        if len(told) < 2 or _number(told[-1], "t") <= _number(told[0], "t"):
            continue
        # A report may stand for a burst of steps: its count says so, if it has one.
        counted = _number(told[-1], "step") - _number(told[0], "step")
        done = counted or sum(_number(line, "n") or 1 for line in told[1:])
        rates.append(done / (_number(told[-1], "t") - _number(told[0], "t")))
    return max(rates, default=None)


def _topology(events: Path) -> dict[str, tuple[CpuPlace, ...]]:
    """Node -> its CPUs with cache and cell, as the run noted them at its start."""
    found: dict[str, tuple[CpuPlace, ...]] = {}
    body: Line = next((line for line in read_lines(events) if line.get("kind") == "body"), {})
    for node, places in _mapping(body, "topology").items():
        rows = [row for row in places if isinstance(row, list)] if isinstance(places, list) else []
        numbers = [[one for one in row if isinstance(one, int)] for row in rows]
        found[node] = tuple(CpuPlace(*row) for row in numbers if len(row) == 3)
    return found


def step_rates(run: RunRecord, slices: int, counted: str = "examples") -> list[float]:
    """Examples a second of all members in equal parts of the time in which they trained.

    `counted`: what is counted of a report, `n` for the steps in it.
    """
    members = [one.member.name for one in read_holdings(run.plan_file)]
    lines = [list(read_lines(run.sample_file(name))) for name in members]
    low, high = window_of(lines, None)
    if (low, high) == _NO_WINDOW:
        return []
    done = [0.0] * slices
    for line in (line for one in lines for line in one if line.get("kind") == "step"):
        at_s = _number(line, "t")
        if low < at_s <= high:
            place = min(slices - 1, int((at_s - low) / (high - low) * slices))
            done[place] += _number(line, counted)
    return [amount * slices / (high - low) for amount in done if amount]


@dataclass(frozen=True)
class Speed:
    """How fast a run trained."""

    value: float
    unit: str


#: Of the time that counts: caches fill, and pages of new memory are touched for the first time.
_WARM_UP = 0.25


def speed_of(run: RunRecord, seconds: float) -> Speed | None:
    """Within the first seconds after the first report, but for the first quarter of them.

    So that two runs are compared over the same part of their lives. Slow steps are taken as far as
    four reports need. None if fewer than two were made.
    """
    members = [one.member.name for one in read_holdings(run.plan_file)]
    lines = [list(read_lines(run.sample_file(name))) for name in members]
    steps = [[line for line in one if line.get("kind") == "step"] for one in lines]
    times = sorted(_number(line, "t") for one in steps for line in one)
    if len(times) < 2:
        return None
    until_s = max(times[0] + seconds, times[min(len(times), _LEAST_REPORTS) - 1])
    last_s = max(at_s for at_s in times if at_s <= until_s)
    window = times[0] + _WARM_UP * (last_s - times[0]), last_s
    examples = [rate for one in steps if (rate := _examples_per_s(one, window)) is not None]
    if examples:
        return Speed(sum(examples), "examples/s")
    rates = [rate for one in steps if (rate := _steps_per_s(one, window)) is not None]
    return Speed(max(rates), "steps/s") if rates else None


def read_job_text(run: RunRecord) -> tuple[str, Path]:
    """The file that the run was started from, or the job as the run kept it."""
    source = Path(run.info.source)
    path = source if run.info.source and source.is_file() else run.job_file
    return path.read_text(encoding="utf-8", errors="replace"), path


__all__ = [
    "LEAST_SAMPLES",
    "Speed",
    "member_facts",
    "read_job_text",
    "read_run",
    "speed_of",
    "step_rates",
    "window_of",
]
