"""`moor render`: the exact objects that a submit would lead to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli import options
from mooring.cli.kube_options import access_of, kube_context
from mooring.cli.say import emit, say

if TYPE_CHECKING:
    from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess
    from mooring.backends.kubernetes.client.cluster import ClusterNow


@click.command()
@options.job_file
@options.overrides
@kube_context
@click.option("-n", "--namespace", help="[default: the job's, or the context's]")
@click.option(
    "--cluster",
    "cluster_file",
    metavar="CLUSTER.yaml",
    type=click.Path(path_type=Path),
    help="On the empty nodes that this file describes; no cluster is asked.",
)
@click.option("--image", metavar="I", help="The operator's image. [default: mooring:VERSION]")
@options.output("yaml", "json")
def render(
    job_file: Path,
    overrides: tuple[str, ...],
    context: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    cluster_file: Path | None,
    image: str | None,
    output: str,
) -> int:
    """Print the objects that a submit would lead to, on the cluster as it is. Sends nothing.

    The job, its files, its Service and its pods, each with its node. If the job would have to
    wait, there are no pods, standard error says why, and the exit code is 0 all the same. The
    job's uid, which only a server can give, is all zeros; so is its token left out.
    """
    import asyncio
    import time

    from mooring.backends.kubernetes.client.cluster import described_cluster
    from mooring.backends.kubernetes.client.files import pack
    from mooring.backends.kubernetes.client.render import render as make
    from mooring.backends.kubernetes.objects.pod_manifest import Image
    from mooring.install import InstallSettings, to_json, to_yaml
    from mooring.model.errors import BadInput
    from mooring.spec import load_job

    job = load_job(job_file, overrides)
    where = namespace or job.spec.kubernetes.namespace
    if cluster_file is not None:
        if context is not None or kubeconfig is not None:
            raise BadInput.at("moor render", "--cluster", "--context as well", "one of the two")
        cluster = described_cluster(cluster_file)
    else:
        access = access_of(context, kubeconfig)
        where = where or access.namespace
        cluster = asyncio.run(_read(access))
    source = str(job_file)
    packed = pack(job, job_file.absolute().parent, source)
    made = make(
        job,
        where or "default",
        packed.archive,
        cluster,
        Image(image or InstallSettings().image),
        time.time(),
        source,
    )
    documents = [dict(one) for one in made.objects]
    emit(to_yaml(documents) if output == "yaml" else to_json(documents), nl=False)
    for note in (*packed.left_out, *made.notes):
        say(f"note: {note}", err=True)
    if made.waits:
        say(f"no pods: {made.waits}", err=True)
    return 0


async def _read(access: ClusterAccess) -> ClusterNow:
    from mooring.backends.kubernetes.api.client import Client
    from mooring.backends.kubernetes.client.cluster import read_cluster

    async with Client(access) as client:
        return await read_cluster(client)
