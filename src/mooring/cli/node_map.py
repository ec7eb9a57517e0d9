"""The option `--map`: a drawing of the nodes below the table, or in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.model.errors import BadInput

if TYPE_CHECKING:
    from mooring.model.cluster import Snapshot
    from mooring.model.plan import Plan

#: The value of `--map` without a file.
ON_TERMINAL = "-"


def check_map_option(map_file: str | None, output: str) -> None:
    """Before any work: `--map JOB.yaml` is a slip that click cannot see."""
    if map_file is None:
        return
    if map_file == ON_TERMINAL:
        if output == "json":
            raise BadInput.at("moor plan", "--map", "no file, with -o json", "a FILE.svg")
    elif not map_file.endswith(".svg"):
        accepted = "a FILE.svg, or --map as the last word to draw on the terminal"
        raise BadInput.at("moor plan", "--map", f"'{map_file}'", accepted)


def write_map(path: Path, snapshot: Snapshot, plans: Sequence[Plan]) -> None:
    from mooring.report.nodemap import node_maps
    from mooring.report.nodemap_svg import svg

    try:
        path.write_text(svg(node_maps(snapshot, plans)), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput.at(
            "moor plan", "--map", f"'{path}' ({reason})", "a file that can be written"
        ) from error


def print_map(snapshot: Snapshot, plans: Sequence[Plan]) -> None:
    from mooring.cli.console import console
    from mooring.report.nodemap import draw, node_maps

    console().print(draw(node_maps(snapshot, plans)))
