"""Removes a test bed once the process that made it is gone, however it went.

Run as a program, `guard.py TOKEN FOLDER...`: it waits for the end of its standard input, which
comes when the maker closes it or dies, even by SIGKILL. An ordinary teardown takes the same path,
so it is tried by every run. What belongs to a bed is found by its token, never by a list that a
crash could leave incomplete: processes by a variable in their environment, network links and
control groups by their names.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "MOORING_TEST_BED"
CGROUPS = Path("/sys/fs/cgroup")
DEADLINE_S = 30.0


def name_of(token: str) -> str:
    """The name of a bed's bridge and of its control groups; a link has 15 characters at most."""
    return f"mbed-{token}"


def processes_of(token: str) -> list[int]:
    mark = f"{MARK}={token}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def cgroups_of(token: str) -> list[Path]:
    """The bed's control groups, in every hierarchy of version 1 and in version 2; deepest first."""
    name = name_of(token)
    tops = [CGROUPS / name, *(each / name for each in CGROUPS.iterdir() if each.is_dir())]
    found = [Path(top) for each in tops for top, _, _ in os.walk(each)]
    return sorted(set(found), key=lambda path: len(path.parts), reverse=True)


def cable_of(token: str, number: int | str) -> str:
    """This machine's end of the link to one node."""
    return f"mb{token[:6]}n{number}"


def links_of(token: str) -> list[str]:
    """The bed's bridge, and cables to nodes: the kernel keeps one for as long as it keeps the
    network of a node that has ended, which may be long."""
    bridge, cable = name_of(token), cable_of(token, "")
    listed = (each.name for each in Path("/sys/class/net").iterdir())
    return [name for name in listed if name == bridge or name.startswith(cable)]


def leftovers(token: str, folders: list[Path]) -> list[str]:
    """What is on this machine of a bed."""
    left = [f"process {each}" for each in processes_of(token)]
    left += [str(each) for each in cgroups_of(token)]
    left += [str(each) for each in folders if each.exists()]
    left += [f"link {name}" for name in links_of(token)]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return left + [f"mount {line}" for line in mounts if name_of(token) in line]


def remove(token: str, folders: list[Path]) -> list[str]:
    """What could not be removed."""
    give_up = time.monotonic() + DEADLINE_S
    while (left := _remove_once(token, folders)) and time.monotonic() < give_up:
        time.sleep(0.05)
    return left


def _remove_once(token: str, folders: list[Path]) -> list[str]:
    processes = processes_of(token)
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if processes:
        return [f"process {process}" for process in processes]
    left = []
    for name in links_of(token):
        subprocess.run(["ip", "link", "delete", name], check=False, stderr=subprocess.DEVNULL)
    left += [f"link {name}" for name in links_of(token)]
    for group in cgroups_of(token):
        try:
            group.rmdir()
        except OSError as problem:
            left.append(f"{group}: {problem}")
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            left.append(str(folder))
    return left


def main() -> None:
    token, *folders = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.read()
    left = remove(token, [Path(folder) for folder in folders])
    if left:
        sys.exit("\n".join(left))


if __name__ == "__main__":
    main()
