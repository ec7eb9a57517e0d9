"""`moor plan`: where each member would go and why each losing node lost."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mooring.cli import options


@click.command()
@options.job_file
@options.overrides
@options.where
@click.option(
    "--cluster",
    "cluster_file",
    metavar="CLUSTER.yaml",
    type=click.Path(path_type=Path),
    help="Plan on the nodes that this file describes instead of this machine.",
)
@options.output("table", "json")
def plan(
    job_file: Path,
    overrides: tuple[str, ...],
    nodes: str | None,
    nic_mbps: int | None,
    cluster_file: Path | None,
    output: str,
) -> int:
    """Show where each member would go and why the other nodes lost. Starts nothing."""
    from mooring.app import choose_nodes, plan_job
    from mooring.bodies.local.nodes import local_snapshot
    from mooring.model.cluster import Snapshot
    from mooring.model.errors import BadInput
    from mooring.model.plan import Refusal
    from mooring.record.plan_file import plan_document
    from mooring.spec import load_cluster, load_job

    job = load_job(job_file, overrides)
    if cluster_file is not None:
        if nodes is not None or nic_mbps is not None:
            raise BadInput.at("moor plan", "--nodes", "--cluster as well", "one of the two")
        snapshot = Snapshot(load_cluster(cluster_file))
    else:
        where = choose_nodes(nodes, nic_mbps)
        snapshot = local_snapshot(where.virtual_nodes, where.nic_mbps)
    gang, answer = plan_job(job, snapshot, str(job_file))
    if isinstance(answer, Refusal):
        if output == "json":
            verdicts = {v.node: list(v.reasons) for v in answer.verdicts}
            click.echo(
                json.dumps(
                    {
                        "job": answer.job,
                        "refused": answer.sentence,
                        "member": answer.member.name,
                        "nodes": verdicts,
                    },
                    indent=1,
                )
            )
        else:
            click.echo(f"not placed: {answer.sentence}", err=True)
            for verdict in answer.verdicts[:20]:
                click.echo(f"  {verdict.node}: {'; '.join(verdict.reasons)}", err=True)
        return 2
    if output == "json":
        click.echo(json.dumps(plan_document(gang, answer), indent=1))
    else:
        from mooring.cli.console import console as make_console
        from mooring.cli.plan_table import plan_table

        make_console().print(plan_table(gang, answer))
    return 0
