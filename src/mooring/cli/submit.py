"""`moor submit`: jobs to a cluster, and with --wait to their end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.kube_options import access_of, kube_context
from mooring.cli.say import say

if TYPE_CHECKING:
    from mooring.cli.waiting import Waiting
    from mooring.kubeapi.client import Client
    from mooring.kubeapi.kubeconfig import Access
    from mooring.spec import TrainingJob


@click.command()
@click.argument(
    "job_files", metavar="JOB.yaml...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@options.overrides
@kube_context
@click.option("-n", "--namespace", help="[default: the job's, or the context's]")
@click.option("--wait", is_flag=True, help="Follow the jobs until they end; Ctrl-C leaves them.")
def submit(
    job_files: tuple[Path, ...],
    overrides: tuple[str, ...],
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    wait: bool,
) -> int:
    """Send jobs to a cluster, in the order in which they are named.

    With --wait the exit code is 0 if all of them succeed, and 1 otherwise. Nothing is sent if one
    of the files has a mistake.
    """
    import asyncio

    from mooring.cli.waiting import Waiting
    from mooring.spec import load_job

    jobs = [load_job(path, overrides) for path in job_files]
    access = access_of(context, kubeconfig)
    places = [namespace or job.spec.kubernetes.namespace or access.namespace for job in jobs]
    waiting = Waiting(
        [f"{where}/{job.metadata.name}" for where, job in zip(places, jobs, strict=True)]
    )
    try:
        return asyncio.run(_submit(access, jobs, places, job_files, waiting if wait else None))
    except KeyboardInterrupt:
        waiting.interrupted(context)
        raise


async def _submit(
    access: Access,
    jobs: list[TrainingJob],
    places: list[str],
    files: tuple[Path, ...],
    waiting: Waiting | None,
) -> int:
    import asyncio

    from mooring.kubeapi.client import Client
    from mooring.remote.submit import check, submit

    sources = [str(path) for path in files]
    folders = [path.absolute().parent for path in files]
    for each in zip(jobs, places, folders, sources, strict=True):
        for left_out in check(*each):
            say(f"note: {left_out}", err=True)
    async with Client(access) as client:
        for job, where, folder, source in zip(jobs, places, folders, sources, strict=True):
            await submit(client, job, where, folder, source)
            say(f"{where}/{job.metadata.name} submitted")
        if waiting is None:
            return 0
        with waiting:
            names = [job.metadata.name for job in jobs]
            ends = await asyncio.gather(
                *(
                    _follow(client, name, where, waiting)
                    for name, where in zip(names, places, strict=True)
                )
            )
    return 0 if all(ends) else 1


async def _follow(client: Client, name: str, namespace: str, waiting: Waiting) -> bool:
    from mooring.model.status import Phase
    from mooring.remote.submit import follow

    progress = None
    async for progress in follow(client, name, namespace):
        waiting.show(f"{namespace}/{name}", progress)
    return progress is not None and progress.phase == Phase.SUCCEEDED.value
