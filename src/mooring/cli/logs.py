"""`moor logs`: what all members printed, merged by time, a coloured prefix each."""

from __future__ import annotations

import heapq
import os
import time
from pathlib import Path

import click

from mooring.cli import options
from mooring.cli.kube_options import Target, on_cluster, target_of
from mooring.cli.member_names import choose_members, colour
from mooring.cli.say import say, say_prefixed

_FOLLOW_POLL_S = 0.2
_SPARE = 8


@click.command()
@options.run_name
@click.argument("members", metavar="[MEMBER]...", nargs=-1)
@click.option("-f", "--follow", is_flag=True, help="Wait for more until the run ends.")
@click.option("-t", "--timestamps", is_flag=True, help="Print the time of each line.")
@click.option("-n", "--tail", type=click.IntRange(0), help="Only the last N lines of each member.")
@click.option("--raw", is_flag=True, help="Pass colours and control characters on to the terminal.")
@on_cluster()
def logs(
    run: str,
    members: tuple[str, ...],
    follow: bool,
    timestamps: bool,
    tail: int | None,
    raw: bool,
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
) -> None:
    """Print what members printed: all of them merged, or only those named.

    A MEMBER is a member such as worker-0, or a role such as worker. With --context, --kubeconfig
    or --namespace: those of a job on a cluster, RUN being its name. Colours are left out, and
    control characters written out, unless --raw asks for them.
    """
    target = target_of(context, kubeconfig, namespace)
    if target is not None:
        import asyncio

        asyncio.run(_of_cluster(target, run, members, follow, timestamps, tail, raw))
        return
    from mooring.cli.run_names import find_run
    from mooring.record import Tail
    from mooring.record.logs import LogLine, LogTail, parse_log_line, read_log
    from mooring.report.view import RunView

    record = find_run(run)
    view = RunView(record)
    view.update()
    chosen = choose_members(list(view.members), members, "moor logs", "MEMBER")
    prefix = _prefixes(chosen)

    def show(line: LogLine) -> None:
        stamp = f"{line.at} " if timestamps else ""
        say_prefixed(f"{prefix[line.member]} {stamp}".rstrip(" "), line.text, raw=raw)

    files = {member: record.log_file(member) for member in chosen}
    if not follow:
        lines_of = (read_log(path, name, tail) for name, path in files.items())
        for line in heapq.merge(*lines_of, key=lambda line: line.at):
            show(line)
        return
    tails = {}
    for member, path in files.items():
        begin = LogTail(path, member)
        if tail is not None:
            begin.start_at_last(tail)
        tails[member] = Tail(path, begin.offset)
    while True:
        view.update()
        over = view.phase.final or not record.alive()
        fresh: list[LogLine] = []
        for member, reader in tails.items():
            while texts := reader.read_text():
                fresh += [parse_log_line(text, member) for text in texts]
        # Lines that were written together share a time: only a stable sort keeps their order.
        for line in sorted(fresh, key=lambda line: line.at):
            show(line)
        if over and not fresh:
            return
        time.sleep(_FOLLOW_POLL_S)


async def _of_cluster(
    target: Target,
    job: str,
    wanted: tuple[str, ...],
    follow: bool,
    timestamps: bool,
    tail: int | None,
    raw: bool,
) -> None:
    from mooring.backends.kubernetes.api.client import Client
    from mooring.backends.kubernetes.client.jobs import find_job
    from mooring.backends.kubernetes.client.logs import Line, follow_logs, read_logs
    from mooring.backends.kubernetes.jobs.training_job import parse_training_job

    async with Client(target.access) as client:
        view = await find_job(client, job, target.namespace)
    known_members = [member.name for member in parse_training_job(view.object).gang.members]
    chosen = choose_members(known_members, wanted, "moor logs", "MEMBER")
    prefix = _prefixes(chosen)

    def show(line: Line) -> None:
        stamp = f"{line.at} " if timestamps else ""
        say_prefixed(f"{prefix[line.member]} {stamp}".rstrip(" "), line.text, raw=raw)

    def tell(sentence: str) -> None:
        say(sentence, err=True)

    # Every member that is followed keeps a connection to itself.
    async with Client(target.access, connections=len(chosen) + _SPARE) as client:
        if follow:
            await follow_logs(client, view, chosen, tail, show, tell)
            return
        known = await read_logs(client, view, chosen, tail)
    for line in known.lines:
        show(line)
    for sentence in known.missing:
        tell(sentence)


def _prefixes(members: list[str]) -> dict[str, str]:
    width = max(map(len, members), default=0)
    coloured = not os.environ.get("NO_COLOR")
    return {
        member: click.style(f"{member:<{width}} |", fg=colour(index) if coloured else None)
        for index, member in enumerate(members)
    }
