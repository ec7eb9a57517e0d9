"""A PyTorch program does not end while gloo's threads still let go of their last work.

A thread of gloo that has finished a collective frees what belonged to it, and needs the interpreter
for that. Where it gets a CPU only after the interpreter began to end (a busy machine: often),
Python ends the thread, C++ calls that a fatal error, and a program whose work was done dies of
SIGABRT ("terminate called without an active exception"; PyTorch 2.13, Python before 3.14).

Here the end of the program waits until these threads sleep, which is some milliseconds.
"""

from __future__ import annotations

import atexit
import os
import time

from . import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: As PyTorch names them.
_THREAD = "pt_gloo_runloop"
_TASKS = "/proc/self/task"
_PAUSE_S = 0.001
#: A thread that waits for the interpreter sleeps too, until this one pauses: so more than one look.
_LOOKS = 3
_PATIENCE_S = 1.0


def wait_at_exit(module: Any) -> None:
    """`module`: torch.distributed.distributed_c10d. Handlers that the program adds run before."""
    atexit.register(guard.attempt, "what gloo does at the end", _wait)


def _wait() -> None:
    until_s = time.monotonic() + _PATIENCE_S
    asleep = 0
    while asleep < _LOOKS and time.monotonic() < until_s:
        states = _states()
        if not states:
            return
        asleep = asleep + 1 if all(state == "S" for state in states) else 0
        time.sleep(_PAUSE_S)


def _states() -> list[str]:
    """The state of each of gloo's threads, as the kernel has it: R runs or waits for a CPU,
    S sleeps. Empty where there is no /proc.
    """
    states = []
    for task in os.listdir(_TASKS) if os.path.isdir(_TASKS) else ():
        try:
            with open("%s/%s/stat" % (_TASKS, task)) as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it ended meanwhile
        if name == _THREAD:
            states.append(rest.split()[0])
    return states
