"""MPIJob: mpirun in the launcher, ranks in the workers; Mooring's agent takes the place of ssh.

What the operator prepares (a hostfile, an ssh key) is not there, so that the launcher's command
loses the options that point to it; Mooring names hosts and agent in Open MPI's own variables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from mooring.importers.draft import JobDraft
from mooring.importers.kinds import Options, manifest
from mooring.importers.kubeflow import (
    Style,
    pod_of,
    read_clean_pods,
    read_head,
    read_replica,
    read_replicas,
    read_run_policy,
)
from mooring.importers.pod import ContainerProgram, Pod
from mooring.importers.pods import write_command
from mooring.importers.shell import Word, is_script, plain
from mooring.importers.tracked import Field

STYLE_V1 = Style(container="mpi", port="mpijob-port", restart="Never")
#: The launcher is a Job there, which starts its pod again; workers are pods.
LAUNCHER_V2 = Style(container="mpi-launcher", port="mpijob-port", restart="OnFailure")
WORKER_V2 = Style(container="mpi-worker", port="mpijob-port", restart="Never")
_RUNNERS = frozenset({"mpirun", "mpiexec", "orterun"})
_HOSTFILE = ("-hostfile", "--hostfile", "-machinefile", "--machinefile")
_AGENT = ("plm_rsh_agent", "plm_rsh_args", "orte_default_hostfile")
_HOSTS = ("-H", "-host", "--host")
_HOSTFILE_IN_SCRIPT = re.compile(r"\s(--?(?:hostfile|machinefile)[ =]\S+)")
_AGENT_IN_SCRIPT = re.compile(rf"\s(--?mca\s+(?:{'|'.join(_AGENT)})\s+(?:\"[^\"]*\"|'[^']*'|\S+))")
#: What a worker runs to wait for the launcher's ssh.
_WAITING = frozenset({"sshd", "sleep", "tail"})


@manifest("MPIJob", "kubeflow.org/v1", project="Kubeflow training operator")
def read_v1(document: Field, options: Options) -> JobDraft:
    return _read(document, options, STYLE_V1, STYLE_V1)


@manifest("MPIJob", "kubeflow.org/v2beta1", project="Kubeflow MPI operator")
def read_v2(document: Field, options: Options) -> JobDraft:
    return _read(document, options, LAUNCHER_V2, WORKER_V2)


def _read(document: Field, options: Options, launcher: Style, worker: Style) -> JobDraft:
    spec = document["spec"]
    draft = JobDraft(document.ledger, "mpi")
    name = read_head(document, draft, options)
    roles = {"Launcher": "launcher", "Worker": "worker"}
    replicas = read_replicas(spec["mpiReplicaSpecs"], roles, draft)
    for one in replicas:
        style = launcher if one.role == "launcher" else worker
        pod = pod_of(one, style, name, replicas, draft, options)
        program = read_replica(one, pod, style)
        if one.role == "launcher":
            write_launcher(program, pod)
        else:
            drop_worker_command(program)
    draft.carry(draft.role("worker", "processes"), spec["slotsPerWorker"])
    read_run_policy(spec["runPolicy"], draft, sum(one.count for one in replicas))
    read_clean_pods(spec["cleanPodPolicy"], draft)
    spec["mainContainer"].drop("a member has one container")
    read_mpi_settings(spec, draft)
    return draft


def read_mpi_settings(spec: Field, draft: JobDraft) -> None:
    """What the MPI operator and the Trainer's MPI policy both have."""
    spec["sshAuthMountPath"].drop("ranks are started without ssh")
    implementation = spec["mpiImplementation"]
    if implementation.choice("OpenMPI") is not None:
        implementation.map(("spec", "framework"))
    if spec["launcherCreationPolicy"].choice("AtStartup", "WaitForWorkersReady"):
        note = "the launcher starts when all workers are ready"
        spec["launcherCreationPolicy"].map(("spec", "gang"), note=note)
    for name in ("runLauncherAsWorker", "runLauncherAsNode"):
        if spec[name].flag():
            spec[name].refuse("false: the launcher holds no ranks; give the workers one more")
        spec[name].drop("the launcher holds no ranks")


def drop_worker_command(program: ContainerProgram | None) -> None:
    if program is None:
        return
    reason = "workers have no command: Mooring's agent waits for the ranks"
    first = next((PurePosixPath(text).name for text in program.texts()), "")
    texts = " ".join(program.texts())
    waits = first in _WAITING or any(f"/{one}" in texts or f"{one} " in texts for one in _WAITING)
    for source in program.sources:
        if waits or not program.argv:
            source.drop(reason)
        else:
            source.refuse(f"none, sshd or sleep: {reason}")


def write_launcher(program: ContainerProgram | None, pod: Pod) -> None:
    if program is None:
        return
    texts = program.texts()
    used = {PurePosixPath(text).name for text in texts}
    script = is_script(program.argv) and texts[2]
    if "horovodrun" in used or (script and "horovodrun" in script):
        for source in program.sources:
            source.refuse("mpirun: horovodrun reaches the workers by ssh", "horovodrun")
        return
    removed: list[int] = []
    if script:
        argv, changed = _clean_script(program.argv)
    else:
        argv, removed = _clean_argv(program.argv)
        changed = False
    hosts = [text for text in texts if text in _HOSTS]
    if hosts and used & _RUNNERS:
        program.sources[1].refuse("no list of hosts: Mooring names them", hosts[0])
        program.sources[0].refuse("no list of hosts: Mooring names them", hosts[0])
        return
    write_command(program, pod, argv if program.argv else None)
    for number in removed:
        field = program.fields[number]
        if field is not None:
            field.drop(
                "the operator's hostfile and ssh are not there; Mooring names hosts and agent"
            )
    if changed and program.fields[2] is not None:
        note = "without the options for the operator's hostfile and ssh"
        program.fields[2].map(pod.at("command"), note=note)


def _clean_script(argv: Sequence[Word]) -> tuple[list[Word], bool]:
    """`sh -c SCRIPT` with the options taken out of the script's text."""
    script = tuple(_clean_text(part) if isinstance(part, str) else part for part in argv[2])
    return [argv[0], argv[1], script, *argv[3:]], script != argv[2]


def _clean_text(text: str) -> str:
    return _AGENT_IN_SCRIPT.sub("", _HOSTFILE_IN_SCRIPT.sub("", text))


def _clean_argv(argv: Sequence[Word]) -> tuple[list[Word], list[int]]:
    kept: list[int] = []
    position = 0
    while position < len(argv):
        text = plain(argv[position]) or ""
        after = plain(argv[position + 1]) if position + 1 < len(argv) else None
        if text in _HOSTFILE:
            position += 2
        elif text.startswith(tuple(f"{name}=" for name in _HOSTFILE)):
            position += 1
        elif text in ("-mca", "--mca") and after in _AGENT:
            position += 3
        else:
            kept.append(position)
            position += 1
    removed = [number for number in range(len(argv)) if number not in kept]
    return [argv[number] for number in kept], removed
