"""`moor submit`: jobs to this machine's queue or to a cluster, and with --wait to their end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.env_options import EnvOptions, env_options
from mooring.cli.kube_options import on_cluster, target_of
from mooring.cli.say import say
from mooring.model.errors import BadInput

if TYPE_CHECKING:
    from mooring.backends.kubernetes.api.client import Client
    from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess
    from mooring.cli.kube_options import Target
    from mooring.cli.waiting import Waiting
    from mooring.spec import TrainingJob


@click.command()
@click.argument(
    "job_files", metavar="JOB.yaml...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@options.overrides
@on_cluster("-n")
@click.option("--wait", is_flag=True, help="Follow the jobs until they end; Ctrl-C leaves them.")
@env_options
def submit(
    job_files: tuple[Path, ...],
    overrides: tuple[str, ...],
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    wait: bool,
    environment: EnvOptions,
) -> int:
    """Send jobs to this machine's queue (`moor serve`), in the order in which they are named.

    With --context, --kubeconfig or --namespace: to a cluster. Members of jobs in the machine's
    queue inherit this shell's variables, as those of `moor run` do.

    With --wait the exit code is 0 if all of them succeed, and 1 otherwise. Nothing is sent if one
    of the files has a mistake.
    """
    target = target_of(context, kubeconfig, namespace)
    if target is None:
        from mooring.cli import queue_jobs

        return queue_jobs.submit(job_files, overrides, environment, wait=wait)
    if environment.pairs or environment.files:
        accepted = "the job's `env`, or Secrets of the cluster"
        raise BadInput.at("moor submit", "--env", "variables for a cluster", accepted)
    return _to_cluster(job_files, overrides, target, namespace, context, wait=wait)


def _to_cluster(
    job_files: tuple[Path, ...],
    overrides: tuple[str, ...],
    target: Target,
    namespace: str | None,
    context: str | None,
    *,
    wait: bool,
) -> int:
    import asyncio

    from mooring.cli.waiting import Waiting
    from mooring.spec import load_job

    jobs = [load_job(path, overrides) for path in job_files]
    access = target.access
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
    access: ClusterAccess,
    jobs: list[TrainingJob],
    places: list[str],
    files: tuple[Path, ...],
    waiting: Waiting | None,
) -> int:
    import asyncio

    from mooring.backends.kubernetes.api.client import Client
    from mooring.backends.kubernetes.client.submit import check, submit

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
    from mooring.backends.kubernetes.client.submit import follow
    from mooring.model.status import Phase

    progress = None
    async for progress in follow(client, name, namespace):
        waiting.show(f"{namespace}/{name}", progress)
    return progress is not None and progress.phase == Phase.SUCCEEDED.value
