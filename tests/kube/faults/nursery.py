"""Starts operators quickly: one process has imported everything, and forks for each.

A run of kill tests starts hundreds of operators, and importing takes longer than their work. What
is forked is `moor operator` with its own arguments; it can be killed like any other process.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from kube.cluster.control_plane import ControlPlane
from support.waiting import until


class Nursery:
    """Belongs to the control plane's bed: nothing is left when that ends."""

    def __init__(self, plane: ControlPlane) -> None:
        self._socket = plane.bed.folder / "nursery.sock"
        self.logs = plane.bed.folder / "logs"
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, "-m", "kube.faults.nursery", str(self._socket)]
        plane.bed.start("nursery", command, {**os.environ, "PYTHONPATH": path})
        self._bed = plane.bed
        until(self._up, "the nursery has imported the operator", 120)

    def start(self, arguments: Sequence[str], log: str) -> int:
        """The process id of a new `moor operator`, whose output goes to the log of that name."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self._socket))
            order = {"arguments": list(arguments), "log": str(self.logs / f"{log}.log")}
            line.sendall(json.dumps(order).encode() + b"\n")
            return int(line.makefile().readline())

    def close(self) -> None:
        self._bed.stop("nursery", signal.SIGKILL)

    def _up(self) -> bool:
        self._bed.check("nursery")
        return self._socket.exists()


TESTS = Path(__file__).resolve().parents[2]


def serve(path: str) -> None:
    import mooring.cli.operator
    import mooring.frameworks
    import mooring.operator.main

    for name in ("tensorflow", "pytorch", "mpi", "indexed"):
        mooring.frameworks.find(name)
    # The dead are not waited for: whoever killed them knows.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        while True:
            line, _ = listener.accept()
            with line:
                order = json.loads(line.makefile().readline())
                process = os.fork()
                if not process:
                    listener.close()
                    break
                line.sendall(f"{process}\n".encode())
    line.close()
    _become_operator(order["arguments"], order["log"])


def _become_operator(arguments: list[str], log: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    from mooring.cli.main import main

    sys.argv = ["moor", "operator", *arguments]
    main()


if __name__ == "__main__":
    serve(sys.argv[1])
