"""One member's records to facts: what it was given, what it used, how fast it stepped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from mooring.account.looks import read_looks
from mooring.doctor.facts import MemberFacts, Use
from mooring.doctor.member_journal import MemberJournal
from mooring.doctor.read_places import read_cards, read_cells, read_nics
from mooring.doctor.read_stacks import read_stacks
from mooring.doctor.read_surroundings import LEAST_SAMPLES, Window
from mooring.model.cluster import format_cpus
from mooring.model.member import Gang, MemberId
from mooring.model.numbers import whole_number
from mooring.record.plan_file import Holding
from mooring.wire.members import Budget, EndCause, Held, Ready, Step, WhyNotHeld
from mooring.wire.samples import Sample

_REFUSED = (
    "the launcher may not read the trainers: kernel.yama.ptrace_scope, or a container's rules"
)
NO_WINDOW = (float("-inf"), float("inf"))


def window_of(journals: Iterable[MemberJournal], last_s: float | None) -> Window:
    """The time in which the job trained, as its steps tell; its last seconds, if asked for."""
    steps, ends = [], []
    for journal in journals:
        steps += [step.t for step in journal.steps]
        ends += [sample.t for sample in journal.samples]
    low, high = NO_WINDOW
    # One report, or reports of one instant, span no time.
    if steps and max(steps) - min(steps) >= LEAST_SAMPLES - 1:
        low, high = min(steps), max(steps)
    if last_s is not None and ends:
        low, high = max(low, max(ends) - last_s), max(ends)
    return low, high


def member_facts(
    member: MemberId, holding: Holding, gang: Gang, journal: MemberJournal, window: Window
) -> MemberFacts:
    ready = journal.ready or Ready(0.0)
    budget, sources = ready.budget, ready.budget.sources
    samples = _last_attempt(journal.samples)
    inside = [sample for sample in samples if window[0] <= sample.t <= window[1]]
    if len(inside) < LEAST_SAMPLES:
        # A member that had ended, or a window shorter than its samples: all that there is.
        inside = samples
    wanted = next(one for one in gang.members if one.id == member)
    looks = tuple(read_looks(journal.looks, _own_window(journal.steps, window)))
    return MemberFacts(
        name=member.name,
        role=member.role,
        node=holding.slot.node,
        held_cpus=frozenset(holding.slot.cpus),
        exclusive=holding.slot.exclusive,
        asked_millis=holding.resources.cpu_millis,
        memory_limit_bytes=budget.memory_bytes,
        memory_enforced=sources.memory_limit_bytes is not None,
        budget_millis=budget.cpu_millis,
        quota_millis=sources.quota_millis,
        threads_told=budget.threads,
        threads_kept=dict(sources.kept),
        processes=wanted.processes,
        allowed_cpus=_allowed(inside) or frozenset(budget.cpus),
        seen_cpus=_seen_cpus(inside),
        threads=round(median([sample.threads for sample in inside] or [0])),
        peak_memory_bytes=max(
            (max(sample.rss_bytes, sample.peak_rss_bytes) for sample in samples), default=0
        ),
        shm_used_bytes=max((sample.shm_used_bytes for sample in samples), default=0),
        shm_bytes=inside[-1].shm_bytes if inside else 0,
        use=_use(inside),
        memory=tuple((sample.t, sample.rss_bytes) for sample in inside if sample.rss_bytes > 0),
        steps=sum(step.count for step in journal.steps),
        steps_per_s=steps_per_s(journal.steps, window),
        examples_per_s=examples_per_s(journal.steps, window),
        pinned=ready.pinned,
        pinning_note=_why_not_held(ready.held, budget),
        looks=looks,
        stacks=read_stacks(looks),
        stacks_note=_REFUSED if any(look.refused for look in looks) else "",
        gpus=tuple(read_cards(inside)),
        memory_cells=read_cells(samples),
        nics=tuple(read_nics(inside)),
        gpu_error=samples[-1].gpu_error if samples else "",
        out_of_memory=journal.exit is not None and journal.exit.cause is EndCause.OUT_OF_MEMORY,
    )


def _own_window(steps: Sequence[Step], window: Window) -> Window:
    """Without the time in which this member was still starting while another trained already."""
    return max(window[0], min((step.t for step in steps), default=window[0])), window[1]


def _why_not_held(held: Held, budget: Budget) -> str:
    """Why the member does not run on the CPUs that it was given; empty if it does."""
    if held.why_not is WhyNotHeld.NO_AFFINITY:
        return "not pinned: this system has no CPU affinity"
    if held.why_not is WhyNotHeld.OTHER_CPUS:
        return f"asked for CPUs {format_cpus(held.given)}, holds {format_cpus(budget.cpus)}"
    return ""


def _seen_cpus(samples: Sequence[Sample]) -> dict[int, int]:
    """CPU -> threads that were seen on it, over all samples."""
    seen: dict[int, int] = {}
    for sample in samples:
        for cpu, threads in sample.last_cpus.items():
            if (number := whole_number(cpu)) is not None:
                seen[number] = seen.get(number, 0) + threads
    return seen


def _allowed(samples: Sequence[Sample]) -> frozenset[int]:
    """As the last sample that saw a process tells: the very last is taken when all have ended."""
    return frozenset(next((sample.cpus for sample in reversed(samples) if sample.cpus), ()))


def _last_attempt(samples: list[Sample]) -> list[Sample]:
    """A restart counts from zero: totals of two attempts cannot be compared."""
    return [sample for sample in samples if sample.start == samples[-1].start]


def _use(samples: Sequence[Sample]) -> Use | None:
    if len(samples) < LEAST_SAMPLES:
        return None
    first, last = samples[0], samples[-1]
    span_s = last.t - first.t
    if span_s <= 0:
        return None
    switches = last.ctx_vol - first.ctx_vol, last.ctx_invol - first.ctx_invol
    return Use(
        span_s=span_s,
        samples=len(samples),
        cpu_s=max(0.0, last.cpu_s - first.cpu_s),
        wait_s=None if last.wait_s is None else max(0.0, last.wait_s - (first.wait_s or 0.0)),
        switches=sum(max(0, grown) for grown in switches),
        throttled_s=max(0.0, last.throttled_s - first.throttled_s),
        throttled_periods=max(0, last.nr_throttled - first.nr_throttled),
        periods=max(0, last.nr_periods - first.nr_periods),
        received_bytes=max(0, last.rx_bytes - first.rx_bytes),
        sent_bytes=max(0, last.tx_bytes - first.tx_bytes),
    )


def examples_per_s(steps: Sequence[Step], window: Window) -> float | None:
    """Within the window; None if the program does not say."""
    inside = [step for step in steps if window[0] <= step.t <= window[1]]
    if len(inside) < 2 or inside[-1].t <= inside[0].t:
        return None
    done = sum(step.examples or 0 for step in inside[1:])
    return done / (inside[-1].t - inside[0].t) if done else None


def steps_per_s(steps: Sequence[Step], window: Window) -> float | None:
    """Of the local process that reports most: ranks step together."""
    by_rank: dict[int, list[Step]] = {}
    for step in steps:
        if window[0] <= step.t <= window[1]:
            by_rank.setdefault(step.rank, []).append(step)
    rates = []
    for reports in by_rank.values():
        first, last = reports[0], reports[-1]
        if len(reports) < 2 or last.t <= first.t:
            continue
        # A report may stand for a burst of steps: its count says so, if it has one.
        counted = (last.step or 0) - (first.step or 0)
        done = counted or sum(step.count for step in reports[1:])
        rates.append(done / (last.t - first.t))
    return max(rates, default=None)
