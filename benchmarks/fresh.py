"""How long does a newcomer's first command take?

`make run` in a fresh clone of what is committed here, with empty caches and a home of its own,
again and again: what pip downloads and prepares, what it installs, from the start of `moor run` to
its last step, and from there to its end. Needs package registries; 2 GB of disk for one clone at a
time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from results import Machine, say, show, write

_REPOSITORY = Path(__file__).parent.parent
_PIP_LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d),(\d{3}) (.*)")
#: Of the environment nothing else, so that no setting of this one helps.
_KEPT = ("LANG", "TERM", "PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True)
class Fresh:
    """Seconds of one `make run`, and of its parts."""

    all_s: float
    download_s: float
    """pip: looking packages up, downloading, and building what has no wheel."""
    install_s: float
    """pip: from the first file that it installs; the environment itself, and all else of make."""
    until_last_step_s: float
    after_last_step_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    machine = Machine()
    fresh: list[Fresh] = []
    for number in range(1, runs + 1):
        fresh.append(_fresh())
        say(f"{number} of {runs}: {fresh[-1].all_s:.1f} s, end {fresh[-1].after_last_step_s:.1f} s")
        write("fresh", machine, {"runs": [asdict(each) for each in fresh]})
    columns = ["part of `make run`", "median", "worst"]
    parts = {
        "download": [each.download_s for each in fresh],
        "install": [each.install_s for each in fresh],
        "start and training, to the last step": [each.until_last_step_s for each in fresh],
        "from the last step to the end": [each.after_last_step_s for each in fresh],
        "in all": [each.all_s for each in fresh],
    }
    show(f"{runs} fresh clones", columns, [_row(*part) for part in parts.items()])
    within = sum(each.after_last_step_s <= 2.0 for each in fresh)
    say(f"from the last step to the end within 2 s: {within} of {runs}")


def _row(name: str, seconds: Sequence[float]) -> list[str]:
    return [name, f"{statistics.median(seconds):.1f} s", f"{max(seconds):.1f} s"]


def _fresh() -> Fresh:
    with tempfile.TemporaryDirectory(prefix="fresh-") as folder:
        home, clone = Path(folder, "home"), Path(folder, "mooring")
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(_REPOSITORY), str(clone)], check=True)
        log = home / "pip.log"
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        env |= {"HOME": str(home), "PATH": _path(), "PIP_LOG": str(log)}
        began_s = time.monotonic()
        done = subprocess.run(
            ["make", "run"], cwd=clone, env=env, capture_output=True, text=True, check=False
        )
        all_s = time.monotonic() - began_s
        if done.returncode != 0:
            raise SystemExit(f"make run failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        report = _report(clone, env)
        download_s = _downloading_s(log)
        moor_s, after_s = report["wall_s"], report["after_last_step_s"]
        return Fresh(
            all_s=round(all_s, 2),
            download_s=round(download_s, 2),
            install_s=round(all_s - download_s - moor_s, 2),
            until_last_step_s=round(moor_s - after_s, 2),
            after_last_step_s=round(after_s, 2),
        )


def _path() -> str:
    """Without the environment that this runs in."""
    own = os.environ.get("VIRTUAL_ENV", str(Path(_REPOSITORY, ".venv")))
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(each for each in folders if not each.startswith(own))


def _report(clone: Path, env: dict[str, str]) -> dict[str, Any]:
    command = [str(clone / ".venv" / "bin" / "moor"), "report", "last", "-o", "json"]
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(shown.stdout)
    return document


def _downloading_s(log: Path) -> float:
    """What each call of pip took before it began to install, summed."""
    seconds, began = 0.0, None
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        match = _PIP_LINE.match(line)
        if match is None:
            continue
        at = datetime.fromisoformat(f"{match[1]}.{match[2]}")
        if match[3].startswith("Using pip "):
            began = at
        elif began is not None and match[3].startswith("Installing collected packages"):
            seconds += (at - began).total_seconds()
            began = None
    return seconds


if __name__ == "__main__":
    main()
