"""`moor install`: what `kubectl apply` needs to set a cluster up."""

from __future__ import annotations

import re
from pathlib import Path

import click

from mooring.cli import options
from mooring.cli.kube_options import access_of, kube_context
from mooring.cli.say import emit

#: What a namespace may be called (RFC 1123).
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


def _check_namespace(text: str, option: str) -> str:
    from mooring.model.errors import BadInput

    if _NAMESPACE.fullmatch(text) is None:
        accepted = "a namespace: 1 to 63 lower-case letters, digits and '-'"
        raise BadInput.at("moor install", option, repr(text), accepted)
    return text


def _ask_version(context: str | None, kubeconfig: Path | None) -> str:
    import asyncio

    from mooring.backends.kubernetes.api.client import Client
    from mooring.backends.kubernetes.api.document import text

    access = access_of(context, kubeconfig)

    async def ask() -> str:
        async with Client(access) as client:
            return text(await client.call("GET", "/version", "version"), "gitVersion")

    return asyncio.run(ask())


@click.command()
@click.option(
    "--namespace",
    "-n",
    metavar="N",
    default="mooring-system",
    show_default=True,
    help="Where the operator runs.",
)
@click.option("--image", metavar="I", help="The image of Mooring. [default: mooring:VERSION]")
@click.option(
    "--replicas",
    type=click.IntRange(1, 10),
    default=2,
    show_default=True,
    help="Copies of the operator; one leads.",
)
@click.option(
    "--watch",
    metavar="N",
    multiple=True,
    help="Only jobs of this namespace; the operator then may write nowhere else. Repeatable.",
)
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(["webhook", "network-policy"]),
    help="webhook: no check of jobs before they are stored, the operator still checks them; "
    "network-policy: jobs get none, and their ports are open to the cluster. Repeatable.",
)
@click.option(
    "--with",
    "extras",
    multiple=True,
    type=click.Choice(["kubelet-config", "volcano"]),
    help="kubelet-config: the operator may ask kubelets for their CPU manager; volcano: it may "
    "make PodGroups. Repeatable.",
)
@click.option(
    "--kube-version",
    metavar="V",
    help="The server's version, such as 1.29: adds checks that servers from 1.25 on understand. "
    "With --context or --kubeconfig the server is asked.",
)
@kube_context
@options.output("yaml", "json")
def install(
    namespace: str,
    image: str | None,
    replicas: int,
    watch: tuple[str, ...],
    without: tuple[str, ...],
    extras: tuple[str, ...],
    kube_version: str | None,
    context: str | None,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Print the manifests that set a cluster up, in the order in which they are applied.

    moor install | kubectl apply -f -
    """
    from mooring.install import InstallSettings, manifests, parse_kube_version, to_json, to_yaml
    from mooring.model.errors import BadInput

    if image is not None and (not image.strip() or not image.isprintable() or " " in image):
        raise BadInput.at("moor install", "--image", repr(image), "an image such as mooring:1.0")
    if kube_version is None and (context is not None or kubeconfig is not None):
        kube_version = _ask_version(context, kubeconfig)
    try:
        server = parse_kube_version(kube_version) if kube_version is not None else None
    except ValueError:
        accepted = "a version such as 1.29 or v1.29.3"
        raise BadInput.at("moor install", "--kube-version", repr(kube_version), accepted) from None
    settings = InstallSettings(
        namespace=_check_namespace(namespace, "--namespace"),
        image=image or InstallSettings().image,
        replicas=replicas,
        webhook="webhook" not in without,
        kubelet_config="kubelet-config" in extras,
        volcano="volcano" in extras,
        network_policy="network-policy" not in without,
        watch=tuple(dict.fromkeys(_check_namespace(one, "--watch") for one in watch)),
        kube_version=server,
    )
    documents = manifests(settings)
    emit(to_yaml(documents) if output == "yaml" else to_json(documents), nl=False)
