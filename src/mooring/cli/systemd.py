"""The systemd unit of `moor serve`, for the user who asks for it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mooring.record.state_home import state_home

_UNIT = """\
# {where}
# {then}
[Unit]
Description=Mooring: this machine's queue of training jobs
After=network.target

[Service]
ExecStart={command}
Environment=MOORING_HOME={home}
Restart=on-failure
RestartSec=2
# Jobs have processes of their own and go on when the service is stopped or replaced.
KillMode=process

[Install]
WantedBy={target}
"""


def unit_text(options: Sequence[str]) -> str:
    """A unit that runs `moor serve` with these options."""
    as_root = os.geteuid() == 0
    folder = "/etc/systemd/system" if as_root else "~/.config/systemd/user"
    control = "systemctl" if as_root else "systemctl --user"
    return _UNIT.format(
        where=f"moor serve --unit > {folder}/mooring.service",
        then=f"{control} daemon-reload && {control} enable --now mooring"
        + ("" if as_root else f" && loginctl enable-linger {Path.home().name}"),
        command=" ".join(map(_quoted, [_moor(), "serve", *options])),
        home=_quoted(str(state_home())),
        target="multi-user.target" if as_root else "default.target",
    ).rstrip("\n")


def _moor() -> str:
    """This very `moor`, by its whole path."""
    beside = Path(sys.executable).parent / "moor"
    return str(beside) if beside.exists() else shutil.which("moor") or "moor"


def _quoted(text: str) -> str:
    """As systemd reads it: `%` and `$` have a meaning there, spaces and quotes too."""
    plain = text.replace("%", "%%").replace("$", "$$")
    if plain and not set(plain) & set(" \t\"'\\;"):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
