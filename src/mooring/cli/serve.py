"""`moor serve`: this machine's queue."""

from __future__ import annotations

from pathlib import Path

import click

from mooring.cli import options
from mooring.cli.say import emit


@click.command()
@options.where
@click.option(
    "--pools",
    "pools_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="How jobs share the machine. [default: pools.yaml in the state home, if it is there]",
)
@click.option(
    "--keep-runs", type=click.IntRange(0), metavar="N", help="Remove ended runs beyond the last N."
)
@click.option("--keep-for", metavar="AGE", help="Remove runs that ended longer ago, such as 30d.")
@click.option(
    "--keep-disk", metavar="SIZE", help="Remove the oldest ended runs beyond so much, such as 20Gi."
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Also take requests over TCP on this machine, such as 127.0.0.1:8642, with a token.",
)
@click.option("--unit", is_flag=True, help="Print a systemd unit with these options, and end.")
def serve(
    nodes: str | None,
    nic_mbps: int | None,
    pools_file: Path | None,
    keep_runs: int | None,
    keep_for: str | None,
    keep_disk: str | None,
    listen: str | None,
    unit: bool,
) -> None:
    """Run this machine's queue, until Ctrl-C or SIGTERM. Jobs go on after that.

    `moor submit` sends jobs to it. Each runs as soon as the machine has room for all its members,
    by priority and arrival; `moor ps` says why the others wait. The pools file is read again when
    it changes. Runs that were pinned (`moor pin`) are never removed.

    Programs talk to it over a Unix socket, and with --listen over TCP, on this machine alone. Each
    request must then show the token of the file `queue/token` in the state home, which is made if
    it is not there.
    """
    import logging

    from mooring.app import choose_nodes
    from mooring.backends.local.queue.folders import queue_home
    from mooring.cli.ages import age_s
    from mooring.http_api.listening import TcpAddress
    from mooring.record.retention import KeptRuns

    where = choose_nodes(nodes, nic_mbps)
    kept = KeptRuns(
        keep_runs,
        None if keep_for is None else age_s(keep_for, "moor serve", "--keep-for"),
        None if keep_disk is None else _bytes(keep_disk),
    )
    address = None if listen is None else TcpAddress.parse(listen)
    if unit:
        from mooring.cli.systemd import unit_text

        given = {
            "--nodes": nodes,
            "--nic-mbps": nic_mbps,
            "--pools": None if pools_file is None else pools_file.absolute(),
            "--keep-runs": keep_runs,
            "--keep-for": keep_for,
            "--keep-disk": keep_disk,
            "--listen": listen,
        }
        pairs = [(name, str(value)) for name, value in given.items() if value is not None]
        emit(unit_text([part for pair in pairs for part in pair]))
        return
    from mooring.http_api.server import ServeOptions, serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    chosen = ServeOptions(
        where.virtual_nodes,
        where.nic_mbps,
        pools_file.absolute() if pools_file is not None else None,
        kept,
        address,
    )
    serve(queue_home(), chosen)


def _bytes(text: str) -> int:
    from mooring.model.errors import BadInput
    from mooring.model.resources import parse_quantity

    try:
        amount = int(parse_quantity(text))
    except ValueError:
        amount = -1
    if amount < 0:
        raise BadInput.at("moor serve", "--keep-disk", repr(text), "a size such as 500Mi or 20Gi")
    return amount
