"""`make fuzz`: every entry point for some seconds, each in a process of its own with little memory.

    PYTHONPATH=tests/unit python -m fuzz --seconds 6 [--only NAME] [--begin NUMBER]

Prints the count tried, the slowest input and the memory that each took; what was found, by where it
was raised, with the number of its input.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import time
import traceback
from itertools import count
from typing import Any

from fuzz import entries_cluster, entries_files, entries_launcher
from fuzz.entry import ENTRIES, Entry, attempt
from fuzz.making import make

assert entries_cluster and entries_files and entries_launcher
_MOST_BYTES = 3 << 30
_MOST_GROWN_MIB = 300


def _one(entry: Entry, seconds: float, begin: int) -> dict[str, Any]:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    logging.disable(logging.CRITICAL)
    for seed in entry.seeds:
        try:
            entry.target(seed)
        except entry.refusals:
            pass
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: dict[str, str] = {}
    slowest_s, tried, until_s = 0.0, 0, time.monotonic() + seconds
    for number in count(begin):
        if time.monotonic() > until_s:
            break
        tried += 1
        data = make(entry.seeds, number)
        try:
            slowest_s = max(slowest_s, attempt(entry, data))
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__}: {error}"[:120]
            found.setdefault(f"{last.filename}:{last.lineno}", f"number {number}: {where}")
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if grown_mib > _MOST_GROWN_MIB:
        found["memory"] = f"{grown_mib:.0f} MiB more than before"
    return {"tried": tried, "slowest_s": slowest_s, "grown_mib": grown_mib, "found": found}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=6.0, help="for each entry point")
    parser.add_argument("--only", default="", help="entry points with this in their names")
    parser.add_argument("--begin", type=int, default=0, help="the number of the first input")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        print(json.dumps(_one(ENTRIES[asked.only], asked.seconds, asked.begin)))
        return 0
    bad = total = 0
    print(f"{'entry point':34}{'read from':18}{'tried':>9}{'slowest':>10}{'memory':>10}")
    for name, entry in ENTRIES.items():
        if asked.only not in name:
            continue
        command = [sys.executable, "-m", "fuzz", "--here", f"--only={name}"]
        command += ["--seconds", str(asked.seconds), "--begin", str(asked.begin)]
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=asked.seconds + 60
            )
        except subprocess.TimeoutExpired:
            bad += 1
            print(f"{name:34}one input takes longer than a minute")
            continue
        try:
            told = json.loads(answer.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            bad += 1
            print(f"{name:34}died with {answer.returncode}: {answer.stderr[-300:]}")
            continue
        total += told["tried"]
        print(
            f"{name:34}{entry.group:18}{told['tried']:>9,}{1e3 * told['slowest_s']:>7.0f} ms"
            f"{told['grown_mib']:>6.0f} MiB",
            flush=True,
        )
        for where, what in told["found"].items():
            bad += 1
            print(f"    {where}\n        {what}")
    print(f"{len(ENTRIES)} entry points, {total:,} inputs, {bad} found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
