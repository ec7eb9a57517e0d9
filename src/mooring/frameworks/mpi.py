"""MPI without ssh: mpirun runs in the launcher and starts its ranks through Mooring.

The workers have no command. Each serves the rank agent on its `agent` port, and mpirun's remote
shell is `moor-rsh`, which finds a worker by its name in the hostfile and runs Open MPI's daemon
there, inside the worker's slot. The rest is set by Open MPI's own variables (`OMPI_MCA_*`, 4.x).

Open MPI takes ranks for neighbours, which talk through shared memory, only if one daemon started
them. Workers on the same host therefore have one daemon, in the slot of the first of them, and
`moor-rank` (the daemon's fork agent) has each rank started in the slot of its own worker.

A runtime puts `moor-rsh` and `moor-rank` on the PATH of the launcher and of the members that serve
ranks, and gives all of them the same MOORING_RANK_TOKEN.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import ClassVar

from mooring.frameworks.base import Framework, RoleFacts, launch
from mooring.frameworks.commands import RANK_STARTERS
from mooring.frameworks.network import on_loopback
from mooring.model.engine import Engine
from mooring.model.errors import Problem
from mooring.model.identity import Identity, Peer
from mooring.model.launch import Launch
from mooring.model.member import Duty, Member, MemberId
from mooring.spec import Strategy, SuccessPolicy, TrainingJob

LAUNCHER = "launcher"
WORKER = "worker"
HOSTFILE = "hostfile"
RANK_HOSTS_FILE = "rank-hosts.json"
RANK_SLOTS_FILE = "rank-slots.json"
REMOTE_SHELL = "moor-rsh"
FORK_AGENT = "moor-rank"
AGENT_PORT = "agent"
#: Options of mpirun that say which rank goes to which worker or CPU: then each worker is a host of
#: its own, whose daemon sees the worker's CPUs and nothing else.
_PLACING_OPTIONS = frozenset(
    {
        *("bind-to", "bind-to-core", "bind-to-socket", "map-by", "rank-by", "rankfile", "rf"),
        *("host", "H", "hostfile", "machinefile", "cpu-set", "cpu-list", "cpus-per-proc"),
        *("cpus-per-rank", "npernode", "N", "pernode", "npersocket", "ppr"),
    }
)


class Mpi(Framework):
    name: ClassVar[str] = "mpi"
    summary: ClassVar[str] = "a launcher that runs mpirun, and workers that hold the ranks; no ssh"
    strategies: ClassVar[tuple[Strategy, ...]] = (Strategy.LAUNCHER,)
    owned_env: ClassVar[frozenset[str]] = frozenset(
        {
            "OMPI_MCA_orte_default_hostfile",
            "OMPI_MCA_plm",
            "OMPI_MCA_plm_rsh_agent",
            "OMPI_MCA_plm_rsh_no_tree_spawn",
            "OMPI_MCA_orte_leave_session_attached",
            "OMPI_MCA_orte_fork_agent",
        }
    )

    engine: ClassVar[Engine | None] = Engine(
        module="mpi4py",
        package="mpi4py",
        programs=RANK_STARTERS,
        system_packages=MappingProxyType(
            {"apt-get": "openmpi-bin", "dnf": "openmpi", "brew": "open-mpi"}
        ),
    )

    def roles(self, strategy: Strategy) -> Mapping[str, RoleFacts]:
        return {
            LAUNCHER: RoleFacts(
                ranked=False, duty=Duty.STARTS, required=True, max_replicas=1, ports=()
            ),
            WORKER: RoleFacts(
                required=True, needs_command=False, multi_process=True, ports=(AGENT_PORT,)
            ),
        }

    def check(self, job: TrainingJob) -> list[Problem]:
        worker = job.spec.roles.get(WORKER)
        if worker is None or worker.command is None:
            return []
        return [
            Problem(
                f"spec.roles.{WORKER}.command",
                f"a command ({worker.command[0]})",
                f"none: the command of {LAUNCHER} (mpirun) says what the ranks run",
            )
        ]

    def success(self, job: TrainingJob) -> SuccessPolicy:
        return SuccessPolicy(roles=(LAUNCHER,))

    def render(self, member: Member, identity: Identity, member_dir: str) -> Launch:
        if member.id.role == LAUNCHER:
            return _launcher(member, identity, member_dir)
        return _worker(member, identity, member_dir)


def rank_host(member: MemberId) -> str:
    """A worker's name in the hostfile.

    It must not resolve: mpirun would take a name that leads to its own machine for local, and
    start those ranks itself, outside the worker's slot. Members' host names end with a digit.
    """
    return f"{member.role}-{member.index}-ranks"


def _launcher(member: Member, identity: Identity, member_dir: str) -> Launch:
    folder = PurePosixPath(member_dir)
    workers = identity.of_role(WORKER)
    hosts = [[peer] for peer in workers] if _places_ranks(member.argv) else _by_host(workers)
    hostfile = "".join(
        f"{rank_host(host[0].member)} slots={sum(peer.processes for peer in host)}\n"
        for host in hosts
    )
    rank_hosts = {rank_host(peer.member): [peer.host, peer.ports[AGENT_PORT]] for peer in workers}
    env = {
        "MOORING_RANK_HOSTS": str(folder / RANK_HOSTS_FILE),
        "OMPI_MCA_orte_default_hostfile": str(folder / HOSTFILE),
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": REMOTE_SHELL,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        # Otherwise the daemon leaves its session, and the agent loses sight of the ranks.
        "OMPI_MCA_orte_leave_session_attached": "1",
    }
    if len(hosts) < len(workers):
        env["OMPI_MCA_orte_fork_agent"] = FORK_AGENT
    defaults = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # Where mpirun keeps its session. Its own variable for this would reach the workers too.
        "TMPDIR": member_dir,
        # The workers are already held to their CPUs.
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        # Ranks fill one worker after the other, as Mooring counts them.
        "OMPI_MCA_rmaps_base_mapping_policy": "slot",
        # mpirun looks its hosts up although they are not to be found.
        "RES_OPTIONS": "timeout:1 attempts:1",
    }
    if on_loopback(identity):
        defaults |= {"OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_btl_tcp_if_include": "lo"}
    files = {HOSTFILE: hostfile, RANK_HOSTS_FILE: json.dumps(rank_hosts, indent=1) + "\n"}
    return launch(member, identity, defaults=defaults, env=env, files=files)


def _by_host(workers: Sequence[Peer]) -> list[list[Peer]]:
    """Workers that are reached at the same host, in the order of their ranks.

    Pods have a host each, also those on one node: they share neither memory nor process numbers.
    """
    hosts: list[list[Peer]] = []
    for peer in workers:
        # Ranks fill one host after the other, so that only workers in a row can share one.
        if hosts and hosts[-1][0].host == peer.host:
            hosts[-1].append(peer)
        else:
            hosts.append([peer])
    return hosts


def _places_ranks(argv: Sequence[str]) -> bool:
    options = re.findall(r"(?<![\w-])--?([A-Za-z][a-z-]*)", " ".join(argv))
    return not _PLACING_OPTIONS.isdisjoint(options)


def _worker(member: Member, identity: Identity, member_dir: str) -> Launch:
    # Two workers on one machine have the same host name, and Open MPI names its shared memory by
    # host and local rank: daemons with one folder write into each other's, and crash.
    defaults = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_orte_tmpdir_base": member_dir,
        "OMPI_MCA_btl_vader_backing_directory": member_dir,
        "OMPI_MCA_osc_sm_backing_directory": member_dir,
        "OMPI_MCA_osc_rdma_backing_directory": member_dir,
        "OMPI_MCA_shmem_mmap_backing_file_base_dir": member_dir,
    }
    if member.resources.cpu_millis < 1000 * member.processes:
        # A rank that waits spins; with less than a CPU each they would take it from the others.
        defaults["OMPI_MCA_mpi_yield_when_idle"] = "1"
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    for host in _by_host(identity.of_role(WORKER)):
        if len(host) > 1 and host[0].member == member.id:
            slots = [[peer.host, peer.ports[AGENT_PORT], peer.processes] for peer in host]
            env["MOORING_RANK_SLOTS"] = str(PurePosixPath(member_dir) / RANK_SLOTS_FILE)
            files[RANK_SLOTS_FILE] = json.dumps(slots) + "\n"
    return launch(member, identity, defaults=defaults, env=env, files=files, serves_ranks=True)
