"""--context and --kubeconfig, and what they lead to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess

Command = TypeVar("Command", bound=Callable[..., object])


def _complete(ctx: click.Context, param: click.Parameter, start: str) -> list[CompletionItem]:
    from mooring.backends.kubernetes.api.errors import KubeError
    from mooring.backends.kubernetes.api.kubeconfig import contexts

    try:
        return [CompletionItem(name) for name in contexts() if name.startswith(start)]
    except KubeError:
        return []


def kube_context(command: Command) -> Command:
    """--context NAME and --kubeconfig FILE."""
    context = click.option(
        "--context",
        metavar="NAME",
        shell_complete=_complete,
        help="The kubeconfig's context. [default: the current one]",
    )
    kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The kubeconfig. [default: $KUBECONFIG, ~/.kube/config, or the pod's account]",
    )
    return context(kubeconfig(command))


@dataclass(frozen=True)
class Target:
    """A namespace of a cluster."""

    access: ClusterAccess
    namespace: str


def on_cluster(*names: str) -> Callable[[Command], Command]:
    """--context, --kubeconfig and --namespace, for a command that also works on this machine."""

    def decorate(command: Command) -> Command:
        namespace = click.option(
            *names, "--namespace", metavar="N", help="On a cluster: [default: the context's]"
        )
        return kube_context(namespace(command))

    return decorate


def target_of(context: str | None, kubeconfig: Path | None, namespace: str | None) -> Target | None:
    """Where on a cluster; None if none was named: the command is about this machine."""
    if context is None and kubeconfig is None and namespace is None:
        return None
    access = access_of(context, kubeconfig)
    return Target(access, namespace or access.namespace)


def required_target(context: str | None, kubeconfig: Path | None) -> Target:
    access = access_of(context, kubeconfig)
    return Target(access, access.namespace)


def access_of(context: str | None, kubeconfig: Path | None) -> ClusterAccess:
    from mooring.backends.kubernetes.api.kubeconfig import load_access

    return load_access(context, kubeconfig)
