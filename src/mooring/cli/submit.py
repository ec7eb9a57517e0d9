"""`moor submit`: a job to a cluster, and with --wait to its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.kube_options import access_of, kube_context

if TYPE_CHECKING:
    from mooring.kubeapi.kubeconfig import Access
    from mooring.spec import TrainingJob


@click.command()
@options.job_file
@options.overrides
@kube_context
@click.option("-n", "--namespace", help="[default: the job's, or the context's]")
@click.option("--wait", is_flag=True, help="Follow the job until it ends; Ctrl-C leaves it alone.")
def submit(
    job_file: Path,
    overrides: tuple[str, ...],
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    wait: bool,
) -> int:
    """Send a job to a cluster."""
    import asyncio

    from mooring.spec import load_job

    job = load_job(job_file, overrides)
    access = access_of(context, kubeconfig)
    where = namespace or job.spec.kubernetes.namespace or access.namespace
    return asyncio.run(_submit(access, job, where, job_file, wait))


async def _submit(
    access: Access, job: TrainingJob, namespace: str, job_file: Path, wait: bool
) -> int:
    from mooring.kubeapi.client import Client
    from mooring.model.status import Phase
    from mooring.remote.submit import follow, submit

    async with Client(access) as client:
        await submit(client, job, namespace, job_file.absolute().parent, str(job_file))
        name = job.metadata.name
        click.echo(f"{namespace}/{name} submitted")
        if not wait:
            return 0
        progress = None
        async for progress in follow(client, name, namespace):
            ready = f" {progress.ready}" if progress.ready else ""
            told = f": {progress.message}" if progress.message else ""
            click.echo(f"{progress.phase}{ready}{told}")
        return 0 if progress and progress.phase == Phase.SUCCEEDED.value else 1
