"""`moor clean`: what killed runs left on the machine, and ended runs that nobody needs any more."""

from __future__ import annotations

import time

import click

from mooring.cli.say import say


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--runs", "ended", is_flag=True, help="Also delete the directories of ended runs.")
@click.option(
    "--older-than",
    "older_than",
    metavar="AGE",
    help="Delete the directories of runs that ended longer ago, such as 12h, 7d or 4w.",
)
@click.option(
    "--keep",
    type=click.IntRange(0),
    metavar="N",
    help="Delete the directories of ended runs but for the last N.",
)
def clean(dry_run: bool, ended: bool, older_than: str | None, keep: int | None) -> None:
    """Remove what killed runs left: processes, namespaces, bridges, control groups.

    With --older-than or --keep: directories of ended runs instead, and nothing else; with both,
    those that are old and not among the last N. Runs that live, and those that are pinned, are
    never touched. In a directory that was chosen with `moor run -o`, what Mooring did not write
    stays.
    """
    word = "would remove" if dry_run else "removed"
    if older_than is not None or keep is not None:
        _delete_runs(older_than, keep, word, dry_run=dry_run)
        return
    from mooring.backends.local.clean import clean_machine

    removed = clean_machine(dry_run=dry_run)
    for what in removed:
        say(f"{word} {what}")
    if ended:
        _delete_runs(None, None, word, dry_run=dry_run)
    elif not removed:
        say("nothing to clean")


def _delete_runs(older_than: str | None, keep: int | None, word: str, *, dry_run: bool) -> None:
    from mooring.cli.ages import age_s as read_age_s
    from mooring.model.amounts import size
    from mooring.record.retention import ended_runs, forget_missing, remove, to_remove

    age_s = None if older_than is None else read_age_s(older_than, "moor clean", "--older-than")
    ended = ended_runs()
    chosen = to_remove(ended, time.time(), age_s, keep)
    freed_bytes = 0
    for each in chosen:
        removed = remove(each, dry_run=dry_run)
        freed_bytes += removed.freed_bytes
        stays = f"; stays: {', '.join(removed.stays)}" if removed.stays else ""
        say(f"{word} {removed.folder} ({size(removed.freed_bytes)}){stays}")
    for entry in forget_missing(dry_run=dry_run):
        say(f"{word} {entry}, whose directory is gone")
    count = "1 run" if len(chosen) == 1 else f"{len(chosen)} runs"
    kept = len(ended) - len(chosen)
    freed = "would free" if dry_run else "freed"
    say(f"{word} {count}, {freed} {size(freed_bytes)}; {kept} ended runs stay")
