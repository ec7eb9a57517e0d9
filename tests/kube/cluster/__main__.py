"""`python -m kube.cluster`, from the folder `tests`: what the tests do, by hand."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack

from kube.cluster import build
from kube.cluster.bed import BedError
from kube.cluster.binaries import MissingProgram, find
from kube.cluster.control_plane import control_plane
from kube.cluster.debian import NotAvailable
from kube.cluster.fake_nodes import fake_nodes
from kube.cluster.hollow import hollow_nodes
from kube.cluster.puppets import puppets
from kube.cluster.real_node import KubeletOptions, real_nodes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kube.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="get the programs into the cache (make kube)")
    up = commands.add_parser("up", help="run a cluster until Ctrl-C")
    up.add_argument("--fake-nodes", type=int, default=0, metavar="N", help="nodes without kubelets")
    up.add_argument("--puppets", action="store_true", help="pods of fake nodes go Running")
    up.add_argument("--hollow-nodes", type=int, default=0, metavar="N", help="kubemark nodes")
    up.add_argument("--real-node", action="store_true", help="this machine as a node (root)")
    up.add_argument("--cpu-manager", choices=("static", "none"), default="static")
    chosen = parser.parse_args()
    try:
        return _build() if chosen.command == "build" else _up(chosen)
    except (BedError, MissingProgram, NotAvailable) as problem:
        print(f"no Kubernetes for the tests: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; a build goes on where it was", file=sys.stderr)
        return 130


def _build() -> int:
    try:
        print(f"Kubernetes: {find().folder}")
    except MissingProgram:
        build.build()
    return 0


def _up(chosen: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane())
        if chosen.fake_nodes:
            stack.enter_context(fake_nodes(plane.admin, chosen.fake_nodes))
        if chosen.puppets:
            stack.enter_context(puppets(plane.admin))
        if chosen.hollow_nodes:
            stack.enter_context(hollow_nodes(plane, chosen.hollow_nodes))
        if chosen.real_node:
            nodes = stack.enter_context(real_nodes(plane))
            options = KubeletOptions(cpu_manager=chosen.cpu_manager)
            stack.enter_context(nodes.node(options=options))
        print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
        print(f"{plane.programs.path('kubectl')} get nodes    # Ctrl-C ends it", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
