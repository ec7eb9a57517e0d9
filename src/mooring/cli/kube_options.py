"""--context and --kubeconfig, and what they lead to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from mooring.kubeapi.kubeconfig import Access

Command = TypeVar("Command", bound=Callable[..., object])


def _complete(ctx: click.Context, param: click.Parameter, start: str) -> list[CompletionItem]:
    from mooring.kubeapi.errors import KubeError
    from mooring.kubeapi.kubeconfig import contexts

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


def access_of(context: str | None, kubeconfig: Path | None) -> Access:
    from mooring.kubeapi.kubeconfig import load_access

    return load_access(context, kubeconfig)
