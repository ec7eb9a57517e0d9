"""`moor profile`: a profile as it is understood, or as kube-scheduler reads it."""

from __future__ import annotations

import click

from mooring.cli import nodes as node_options
from mooring.cli import options
from mooring.cli.say import emit, say


@click.command()
@click.argument("profile_name", metavar="P")
@options.output("mooring", "kubernetes")
def profile(profile_name: str, output: str) -> int:
    """Show the rules and weights of a profile, or write it for kube-scheduler.

    P is a file (Mooring's own form, a legacy scheduler Policy or a KubeSchedulerConfiguration), or
    default, packed, roomy or full. `-o kubernetes` prints a KubeSchedulerConfiguration. What has no
    counterpart is left out and named on standard error.
    """
    from mooring.brain.kube_profiles import to_configuration, without_counterpart
    from mooring.brain.profiles import to_document
    from mooring.spec.write import dump_yaml

    found = node_options.profile_of(profile_name)
    if output == "mooring":
        emit(dump_yaml(to_document(found)), nl=False)
        return 0
    for rule, why in without_counterpart(found):
        say(f"note: scores.{rule}: {why}", err=True)
    emit(dump_yaml(to_configuration(found)), nl=False)
    return 0
