"""A real terminal of a given size whose screen can be read: tmux, with a server of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

#: Said by the shell behind the command: it has ended, with this code.
_ENDED = "[exit code "


@dataclass(frozen=True)
class Terminal:
    """One window. `screen` is what a person sees now, `everything` also what has scrolled away."""

    socket: Path

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def everything(self) -> str:
        return self._tmux("capture-pane", "-p", "-S", "-")

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    def exit_code(self) -> int | None:
        """Of the command, once it has ended."""
        _, mark, rest = self.everything().rpartition(_ENDED)
        return int(rest.partition("]")[0]) if mark else None

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-S", str(self.socket), *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout


@contextmanager
def terminal(
    columns: int, rows: int, command: list[str], env: Mapping[str, str]
) -> Iterator[Terminal]:
    """`command` in a new terminal, which is closed at the end whatever runs in it."""
    # The path of a socket must be short, and a server that is being ended still holds its own.
    with TemporaryDirectory(prefix="terminal") as folder:
        script = Path(folder, "command.sh")
        said = f'printf "\\n{_ENDED}%d]\\n" $?'
        # A key that interrupts the command does not end the shell that says how it ended.
        script.write_text(f"trap : INT\n{shlex.join(command)}\n{said}\nexec sleep 3600\n")
        window = Terminal(Path(folder, "tmux"))
        start = ["tmux", "-S", str(window.socket), "-f", os.devnull, "new-session", "-d"]
        start += ["-x", str(columns), "-y", str(rows), f"exec sh {shlex.quote(str(script))}"]
        subprocess.run(start, env={**env, "LC_ALL": "C.UTF-8"}, timeout=30, check=True)
        try:
            yield window
        finally:
            end = ["tmux", "-S", str(window.socket), "kill-server"]
            subprocess.run(end, timeout=30, check=False)
