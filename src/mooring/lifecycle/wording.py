"""The sentences of the lifecycle: why a job ended or started again."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from mooring.lifecycle.events import MemberExited
from mooring.model.member import MemberId

_NAMED_AT_MOST = 4


def exit_sentence(event: MemberExited) -> str:
    """`worker-1 exited with code 3`, `worker-1 was killed by SIGKILL (exit code 137)`."""
    name = signal_name(event.exit_code - 128)
    if name:
        what = f"{event.member} was killed by {name} (exit code {event.exit_code})"
    else:
        what = f"{event.member} exited with code {event.exit_code}"
    return f"{what}: {event.reason}" if event.reason else what


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def after_restarts(sentence: str, restarts: int) -> str:
    if not restarts:
        return sentence
    return f"{sentence} after {restarts} restart{'' if restarts == 1 else 's'}"


def names(members: Sequence[MemberId]) -> str:
    """`ps-0`, `ps-0 and ps-1`, `ps-0, ps-1, worker-0, worker-1 and 5 more`."""
    shown = [str(member) for member in members[:_NAMED_AT_MOST]]
    hidden = len(members) - len(shown)
    if hidden:
        return f"{', '.join(shown)} and {hidden} more"
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
