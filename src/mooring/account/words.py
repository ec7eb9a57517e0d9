"""An account as plain text of 80 columns: the step, divided; then who waits for whom, and lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from mooring.account.types import Account, Activity, RankAccount, RoleAccount, WaitFor

WIDTH = 80
_ORDER = (
    (Activity.FRAMEWORK, "computing, framework"),
    (Activity.OWN, "computing, own code"),
    (Activity.CPU_WAIT, "waiting for a CPU"),
    (Activity.NETWORK, "in the network"),
    (Activity.OTHERS, "waiting for others"),
    (Activity.INPUT, "input"),
    (Activity.DISK, "disk or output"),
    (Activity.SLEEP, "sleeping"),
    (Activity.DEVICE, "device"),
    (Activity.UNSEEN, "unexplained"),
)
_SHOWN = 0.005
_LINE_SHOWN = 0.05
_MOST_COLUMNS = 4
_LABEL = 22
_COLUMN = 14


def lines(account: Account) -> Iterator[str]:
    """Nothing but a sentence where nobody looked."""
    if not account.ranks:
        if account.note:
            yield f"No account of a step: {account.note}."
        return
    columns = _columns(account)
    yield from _table(columns)
    trainers = [one for one in account.ranks if not one.serves]
    for rank in _worth_telling(account):
        yield from _wrapped(_told(rank, len(trainers) > 1))
    for machine in account.machines[:1]:
        if machine.others_cpus >= 0.2:
            yield from _wrapped(
                f"The machine: {machine.others_cpus:.1f} of {machine.cpus} CPUs are used by others."
            )
    if account.note:
        yield from _wrapped(f"Not of everybody: {account.note}.")


def _columns(account: Account) -> list[tuple[str, RoleAccount | RankAccount]]:
    found: list[tuple[str, RoleAccount | RankAccount]] = [
        (f"{role.role} ×{role.ranks}" if role.ranks > 1 else role.role, role)
        for role in account.roles
    ]
    slowest = account.slowest
    if slowest is not None and sum(rank.role == slowest.role for rank in account.ranks) > 1:
        found.append((name(slowest), slowest))
    return found[: _MOST_COLUMNS - 1] + found[_MOST_COLUMNS - 1 :][-1:]


def _table(columns: Sequence[tuple[str, RoleAccount | RankAccount]]) -> Iterator[str]:
    heads = [head[-_COLUMN + 1 :] for head, _ in columns]
    yield "Where a step's time goes".ljust(_LABEL) + "".join(one.rjust(_COLUMN) for one in heads)
    if any(one.step_s is not None for _, one in columns):
        steps = ["–" if one.step_s is None else _ms(one.step_s) for _, one in columns]
        yield "  one step".ljust(_LABEL) + "".join(step.rjust(_COLUMN) for step in steps)
    for activity, label in _ORDER:
        if all(one.share(activity) < _SHOWN for _, one in columns):
            continue
        if activity is Activity.OTHERS and all(one.serves for _, one in columns):
            label = "idle"
        cells = [_cell(one, activity) for _, one in columns]
        yield f"  {label}".ljust(_LABEL) + "".join(cell.rjust(_COLUMN) for cell in cells)


def _cell(one: RoleAccount | RankAccount, activity: Activity) -> str:
    share = one.share(activity)
    if share < _SHOWN:
        return "–"
    percent = f"{100 * share:.0f} %"
    if one.step_s is None or one.serves:
        return percent
    return f"{_ms(share * one.step_s)} {percent.rjust(5)}"


def _worth_telling(account: Account) -> list[RankAccount]:
    """The slowest, and of each role the one that waits most, if it waits at all."""
    chosen: list[RankAccount] = [] if account.slowest is None else [account.slowest]
    for role in account.roles:
        ranks = [rank for rank in account.ranks if rank.role == role.role and rank not in chosen]
        most = max(
            ranks, key=lambda rank: rank.share(Activity.OTHERS, Activity.NETWORK), default=None
        )
        if most is not None and (
            most.serves or most.share(Activity.OTHERS, Activity.NETWORK) > 0.1
        ):
            chosen.append(most)
    return chosen[:4]


def _told(rank: RankAccount, several: bool) -> str:
    said = []
    if rank.network is not None and rank.share(Activity.NETWORK) >= _LINE_SHOWN:
        said.append(_network(rank))
    for wait in rank.waits[:2]:
        if wait.share >= _LINE_SHOWN and not rank.serves:
            said.append(_wait(wait, rank))
    shown = [function for function in rank.functions if function.share >= _LINE_SHOWN][:3]
    if shown and not rank.serves:
        said.append(
            "lines: "
            + ", ".join(
                f"{one.place}{f' in a {one.thread}' if one.thread else ''} {100 * one.share:.0f} %"
                for one in shown
            )
        )
    if rank.note:
        said.append(rank.note)
    if not rank.adds_up:
        said.append(f"{100 * rank.share(Activity.UNSEEN):.0f} % of the step cannot be seen")
    return f"{name(rank)}: {'; '.join(said)}." if said else ""


def _network(rank: RankAccount) -> str:
    use = rank.network
    assert use is not None
    card = f"{use.of}'s card" if use.of else f"card {use.card}"
    limit = "" if use.limit_mbps is None else f" of {use.limit_mbps:g}"
    rates = f"{use.sent_mbps:.3g} out and {use.received_mbps:.3g} in{limit} Mbit/s"
    to = sorted(use.to, key=lambda one: -use.to[one])[:2]
    with_whom = f" with {', '.join(to)}" if to else ""
    return f"in the network ({card}{with_whom}, {rates}, full at {100 * use.full:.0f} % of looks)"


def _wait(wait: WaitFor, rank: RankAccount) -> str:
    time = f"{100 * wait.share:.0f} %"
    if rank.step_s is not None:
        time = f"{_ms(wait.share * rank.step_s)}"
    if not wait.member:
        return f"waits {time} for others, nobody in particular"
    whom = wait.member if wait.rank is None else f"{wait.member}'s rank {wait.rank}"
    if wait.doing is None:
        return f"waits {time} for {whom}"
    at = f" at {wait.line.place}" if wait.line is not None else ""
    return f"waits {time} for {whom}, which {_DOES[wait.doing]}{at}"


_DOES = {
    Activity.FRAMEWORK: "computes in the framework",
    Activity.OWN: "computes in its own code",
    Activity.CPU_WAIT: "waits for a CPU",
    Activity.NETWORK: "is in the network",
    Activity.OTHERS: "waits, too,",
    Activity.INPUT: "waits for its input",
    Activity.DISK: "waits for a disk",
    Activity.SLEEP: "sleeps",
    Activity.DEVICE: "waits for its device",
    Activity.UNSEEN: "waits for something unseen",
}


def name(rank: RankAccount) -> str:
    return rank.member if rank.rank == 0 else f"{rank.member}/{rank.rank}"


def _ms(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    ms = 1000 * seconds
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def _wrapped(text: str) -> list[str]:
    # A number and its unit stay together.
    together = re.sub(r"(\d) (%|ms\b|s\b)", "\\1\u00a0\\2", text)
    lines = textwrap.wrap(
        together, WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )
    return [line.replace("\u00a0", " ") for line in lines]
