"""What a program prints, or is called, never reaches the terminal of whoever looks at its run."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from support.moor import Moor, write_job

#: Obeyed, they would change the title, clear the screen, ask for its position, and ring.
ORDERS = [
    b"\x1b]0;PWNED",
    b"\x1b[2JPWNED",
    b"\x1b[6nPWNED",
    b"\x1b[31mPWNED",
    b"\x07",
    b"\x9bPWNED",
]
HOSTILE = "[/red] [bold]x \x1b]0;PWNED\x07 \x1b[2JPWNED \x1b[6nPWNED \x1b[31mPWNED \x9bPWNED"
PROGRAM = f"""
import os, sys
hostile = {HOSTILE!r}
for step in range(1, 6):
    print(f"step {{step}} loss 0.5 {{hostile}}", flush=True)
    print(hostile, file=sys.stderr, flush=True)
print("\\x08" * 40 + "\\r 10%|#   | 1/10\\r 20%|##  | 2/10\\x1b[K", flush=True)
sys.exit(3)
"""


def on_terminal(moor: Moor, *arguments: str | Path) -> tuple[int, bytes]:
    """The exit code of a command on a terminal of its own, and every byte that it printed there."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mooring", *map(str, arguments)],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**moor.env, "TERM": "xterm-256color", "COLUMNS": "140"},
        start_new_session=True,
    )
    os.close(its)
    printed = b""
    with open(ours, "rb", buffering=0) as file:  # noqa: PTH123 (a descriptor)
        try:
            while piece := file.read(65536):
                printed += piece
        except OSError:
            pass  # the other side is closed
    return process.wait(60), printed


@pytest.fixture(scope="module")
def moor(tmp_path_factory: pytest.TempPathFactory) -> Moor:
    folder = tmp_path_factory.mktemp("hostile")
    made = Moor(folder / "home")
    (folder / "train.py").write_text(PROGRAM)
    command = [sys.executable, str(folder / "train.py")]
    job = write_job(folder, name="loud", framework="indexed", command=command, roles={"worker": {}})
    code, printed = on_terminal(made, "run", job)
    assert code == 1
    assert_harmless(printed)
    assert rb"[/red] [bold]x \x1b]0;PWNED\x07" in printed and b"20%|##  | 2/10" in printed
    named = write_job(
        folder, name="named", framework="indexed", command=[f"./{HOSTILE}"], roles={"worker": {}}
    )
    code, printed = on_terminal(made, "run", named)
    assert code == 1 and b"[/red]" in printed
    assert_harmless(printed)
    return made


def assert_harmless(printed: bytes) -> None:
    assert [order for order in ORDERS if order in printed] == []
    assert b"Traceback" not in printed


@pytest.mark.parametrize(
    "command",
    [
        ("ps", "-a"),
        ("logs", "loud"),
        ("logs", "loud", "-f"),
        ("report", "loud"),
        ("report", "named"),
        ("compare", "loud", "named"),
        ("attach", "named"),
        ("doctor", "loud"),
        ("stop", HOSTILE),
        (HOSTILE,),
    ],
    ids=" ".join,
)
def test_no_command_obeys(moor: Moor, command: tuple[str, ...]) -> None:
    _, printed = on_terminal(moor, *command)
    assert printed
    assert_harmless(printed)


def test_into_a_pipe_it_is_the_same_unless_asked_for(moor: Moor) -> None:
    """What is piped is looked at on a terminal in the end."""
    assert_harmless(moor("logs", "loud").stdout.encode())
    raw = subprocess.run(
        [sys.executable, "-m", "mooring", "logs", "loud", "--raw"],
        capture_output=True,
        env=moor.env,
        check=True,
    )
    assert HOSTILE.encode() in raw.stdout
    bars = [line for line in moor("logs", "loud").stdout.splitlines() if "%|" in line]
    assert bars == ["worker-0 |  10%|#   | 1/10", "worker-0 |  20%|##  | 2/10"]


def test_lines_of_other_logs_are_text_too(moor: Moor, tmp_path: Path) -> None:
    for name in "ab":
        lines = [f"{HOSTILE} train time : 3 ms", f"model {HOSTILE}: {name} {HOSTILE}"]
        (tmp_path / name).write_text("\n".join(lines))
    code, printed = on_terminal(moor, "compare", tmp_path / "a", tmp_path / "b")
    assert code == 0
    assert_harmless(printed)
