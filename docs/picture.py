"""Makes images/live.svg: the live view of a real run, at a moment in the middle of it.

    python docs/picture.py [JOB.yaml] [--nodes N|auto] [--nic-mbps M]

The job really runs, through the same code as `moor run`; only the console is one that records
instead of a terminal. Nothing in the picture is typed in by hand.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from mooring.app import choose_nodes, run_job
from mooring.cli.member_lines import MemberLines
from mooring.model.errors import MooringError
from mooring.model.status import Phase
from mooring.record import RunRecord
from mooring.report import text
from mooring.report.view import RunView
from mooring.spec import load_job

_HERE = Path(__file__).resolve().parent
_COLUMNS = 100
_LINES = 5
#: Far enough for steady rates, and visibly not the end.
_MOMENT = 0.6

# rich's own format fetches a font from the network; a picture in a repository must not.
_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: "DejaVu Sans Mono", Menlo, Consolas, ui-monospace, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Photographer:
    """Draws the live view once, when the run has come far enough."""

    def __init__(self, target: Path, command: str) -> None:
        self.taken = False
        self._target = target
        self._command = command
        self._view: RunView | None = None
        self._started_s = time.monotonic()

    def start(self, run: RunRecord) -> None:
        self._view = RunView(run)
        print(f"running {run.info.id} ...", flush=True)

    def tick(self) -> None:
        if self._view is None or self.taken:
            return
        self._view.update()
        progress = self._view.progress
        if self._view.phase is not Phase.RUNNING or progress is None:
            return
        done, total = progress
        if done >= _MOMENT * total and self._view.examples_per_s is not None:
            self._draw(self._view)
            self.taken = True

    def _draw(self, view: RunView) -> None:
        console = Console(
            record=True, width=_COLUMNS, force_terminal=True, file=io.StringIO(), highlight=False
        )
        console.print(Text.assemble(("$ ", "dim"), self._command))
        # No more than the last lines; the run has printed for a while.
        lines = MemberLines(view.run, terminal=True, last=_LINES).read(
            list(view.members), dict.fromkeys(view.members, 1), last=True
        )
        if lines is not None:
            console.print(replace(lines, lines=lines.lines[-_LINES:]), end="", crop=False)
        elapsed_s = time.monotonic() - self._started_s
        console.print(text.live(view, elapsed_s, view.left_s(time.time())))
        svg = console.export_svg(title="moor run", code_format=_FORMAT, unique_id="moor")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        lines = [line.rstrip() for line in svg.splitlines()]
        self._target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make docs/images/live.svg from a real run.")
    parser.add_argument("job", nargs="?", default="examples/wide-deep/job.yaml", type=Path)
    parser.add_argument("--nodes", default="auto")
    parser.add_argument("--nic-mbps", type=int)
    parser.add_argument("--output", type=Path, default=_HERE / "images" / "live.svg")
    arguments = parser.parse_args()
    try:
        where = choose_nodes(arguments.nodes, arguments.nic_mbps)
        command = f"moor run {arguments.job}"
        if where.virtual_nodes:
            command += f" --nodes {where.virtual_nodes}"
        if where.nic_mbps:
            command += f" --nic-mbps {where.nic_mbps}"
        photographer = Photographer(arguments.output, command)
        result = run_job(
            load_job(arguments.job),
            job_dir=arguments.job.absolute().parent,
            where=where,
            source=str(arguments.job),
            on_start=photographer.start,
            on_tick=photographer.tick,
        )
    except MooringError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{result.phase.value}: {result.reason}")
    if not photographer.taken:
        print("no picture: the run never reported enough steps", file=sys.stderr)
        return 1
    print(f"wrote {arguments.output}")
    return 0 if result.phase is Phase.SUCCEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
