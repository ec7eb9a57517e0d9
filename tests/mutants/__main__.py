"""`make test-mutants`: every patch of this folder, or those with a text in their names.

    PYTHONPATH=tests python -m mutants [TEXT ...]

Exit code 1 if the tests of a mutant pass, if a patch does not apply, or if tests fail without one.
Mutants that need root or a Kubernetes are left out where there is none; with CI=true that is a
failure as well.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kube.cluster import binaries
from mutants.mutant import FOLDER, BadPatch, read_mutants
from mutants.trial import Outcome, Trial

_ROOT = FOLDER.parents[1]


def main(asked: list[str]) -> int:
    try:
        mutants = read_mutants()
    except BadPatch as error:
        print(error, file=sys.stderr)
        return 2
    chosen = [one for one in mutants if not asked or any(text in one.name for text in asked)]
    if not chosen:
        print(f"no patch in {FOLDER} has {' or '.join(asked)} in its name", file=sys.stderr)
        return 2
    outcomes: Counter[Outcome] = Counter()
    with tempfile.TemporaryDirectory(prefix="mooring-mutants-") as folder:
        # As open to other users as a clone is: some tests become one.
        Path(folder).chmod(0o755)
        trial = Trial(_ROOT, Path(folder), _missing())
        for mutant in chosen:
            began_s = time.monotonic()
            result = trial.of(mutant)
            outcomes[result.outcome] += 1
            took_s = time.monotonic() - began_s
            print(
                f"{result.outcome:16} {mutant.name:44} {took_s:5.1f} s  {result.said}", flush=True
            )
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()))
    strict = os.environ.get("CI") == "true" and outcomes[Outcome.NOT_RUN] > 0
    return 1 if strict or not all(outcome.is_good for outcome in outcomes) else 0


def _missing() -> list[str]:
    """What tests may need and this machine does not have."""
    missing = [] if os.geteuid() == 0 else ["root"]
    try:
        binaries.find()
    except binaries.MissingProgram:
        missing.append("kube")
    return missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
