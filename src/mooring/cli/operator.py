"""`moor operator`: what the Deployment runs; it also runs on a laptop against a kubeconfig."""

from __future__ import annotations

from pathlib import Path

import click

from mooring.cli.kube_options import access_of, kube_context


@click.command()
@kube_context
@click.option(
    "--namespace",
    "namespaces",
    envvar="MOORING_NAMESPACE",
    multiple=True,
    metavar="N",
    help="Only the jobs of this namespace. Repeatable.",
)
@click.option(
    "--image",
    envvar="MOORING_IMAGE",
    required=True,
    help="The Mooring image: the init container of every pod copies the launcher from it.",
)
@click.option(
    "--launcher-path",
    envvar="MOORING_LAUNCHER_PATH",
    default="/opt/mooring/launcher.pyz",
    show_default=True,
    help="Where the launcher is in that image.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Take part in an election; without it there must be no second replica.",
)
@click.option(
    "--operator-namespace",
    envvar="POD_NAMESPACE",
    help="Where the lease and the operator's key lie, and the webhook's Service. [default: the "
    "context's namespace]",
)
@click.option("--lease-duration", type=click.FloatRange(1), default=15.0, show_default=True)
@click.option("--workers", type=click.IntRange(1, 256), default=8, show_default=True)
@click.option(
    "--resync",
    type=click.FloatRange(1),
    default=600.0,
    show_default=True,
    help="Seconds until everything is listed anew.",
)
@click.option(
    "--figures-every",
    type=click.FloatRange(0),
    default=5.0,
    show_default=True,
    help="Seconds between two questions to a running job for its steps and CPUs. 0: never ask.",
)
@click.option(
    "--kubelet-config/--no-kubelet-config",
    default=False,
    show_default=True,
    help="Ask kubelets for their CPU and topology manager settings (needs `nodes/proxy`).",
)
@click.option(
    "--lost-node-after",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Seconds that a node may be not ready until pods on it that were told to go are removed "
    "without its word: a member may then run twice. 0: never.",
)
@click.option(
    "--network-policy/--no-network-policy",
    default=True,
    show_default=True,
    help="Give each job a NetworkPolicy: only its own pods may reach its ports.",
)
@click.option(
    "--api-server-cidr",
    "api_servers",
    multiple=True,
    metavar="CIDR",
    help="Where the API servers' questions for figures come from, for that policy; without it the "
    "port for them is open to all who hold the job's token. Repeatable.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), default=9090, show_default=True)
@click.option(
    "--webhook-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Where jobs are checked before they are stored (`moor install` registers it). 0: nowhere.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def operator(
    context: str | None,
    kubeconfig: Path | None,
    namespaces: tuple[str, ...],
    image: str,
    launcher_path: str,
    leader_elect: bool,
    operator_namespace: str | None,
    lease_duration: float,
    workers: int,
    resync: float,
    figures_every: float,
    kubelet_config: bool,
    lost_node_after: float,
    network_policy: bool,
    api_servers: tuple[str, ...],
    metrics_port: int,
    webhook_port: int,
    log_format: str,
) -> None:
    """Run the operator until it is told to stop."""
    import asyncio

    from mooring.backends.kubernetes.objects.pod_manifest import Image
    from mooring.operator.controller import OperatorSettings
    from mooring.operator.leader import LeaseSettings
    from mooring.operator.logs import set_up
    from mooring.operator.main import ReplicaOptions
    from mooring.operator.replica import Webhook, run_replica

    askers = tuple(map(_address_range, api_servers))
    set_up(log_format)
    access = access_of(context, kubeconfig)
    home = operator_namespace or access.namespace
    lease = None
    if leader_elect:
        lease = LeaseSettings(
            namespace=home,
            duration_s=lease_duration,
            renew_s=lease_duration * 2 / 3,
            retry_s=lease_duration / 7.5,
        )
    settings = OperatorSettings(
        Image(image, launcher_path),
        namespaces=namespaces,
        workers=workers,
        resync_s=resync,
        figures_s=figures_every,
        ask_kubelets=kubelet_config,
        lost_node_after_s=lost_node_after,
        home=home,
        network_policy=network_policy,
        api_servers=askers,
    )
    webhook = Webhook(webhook_port, home) if webhook_port else None
    asyncio.run(run_replica(access, ReplicaOptions(settings, lease, metrics_port), webhook))


def _address_range(text: str) -> str:
    """As an API server takes it. Raises BadParameter."""
    import ipaddress

    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        hint = f"{error}; accepted: an address range such as 10.0.0.0/28"
        raise click.BadParameter(hint, param_hint="--api-server-cidr") from None
