"""Does the doctor find what is wrong, and keep silent where nothing is?

Every cause is injected into a real run on this machine; the finding that names it must come first.
Healthy runs must have none. Causes that need root (virtual nodes, control groups, mounts) or py-spy
are left out without it, and counted as such.
"""

from __future__ import annotations

import argparse
import os

from cases import Case, run_case
from injections import healthy, injected
from moored import Moor, temporary_moor
from results import Machine, say, show, write

from mooring.doctor import diagnose_run
from mooring.doctor.read_run import read_run


def findings(moor: Moor, case: Case) -> list[str]:
    """Run the case and return what the doctor finds, worst first."""
    return [finding.id for finding in diagnose_run(read_run(run_case(moor, case))).findings]


def _needs_root(case: Case) -> bool:
    return bool(case.nodes or case.disturb or case.prefix or case.finding == "mem-limit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    only = parser.parse_args().only
    machine = Machine("tensorflow-cpu", "torch")
    rows, left_out = [], []
    with temporary_moor() as moor:
        for case in (*injected(), *healthy()):
            if only not in case.name:
                continue
            if _needs_root(case) and os.geteuid() != 0:
                left_out.append(case.name)
                continue
            found = findings(moor, case)
            right = found[:1] == [case.finding] if case.finding else not found
            rows.append({"case": case.name, "wanted": case.finding, "found": found, "right": right})
            say(f"{'ok ' if right else 'NOT'} {case.name}: {', '.join(found) or 'nothing'}")
    causes = [row for row in rows if row["wanted"]]
    fine = [row for row in rows if not row["wanted"]]
    named = sum(bool(row["right"]) for row in causes)
    alarms = sum(not row["right"] for row in fine)
    show(
        f"{named} of {len(causes)} causes named first; {alarms} false alarms in {len(fine)} "
        "healthy runs",
        ("case", "wanted", "found"),
        [
            (
                str(row["case"]),
                str(row["wanted"] or "nothing"),
                ", ".join(row["found"]) or "nothing",
            )  # type: ignore[arg-type]
            for row in rows
        ],
    )
    write("doctor", machine, {"rows": rows, "left_out": left_out})


if __name__ == "__main__":
    main()
