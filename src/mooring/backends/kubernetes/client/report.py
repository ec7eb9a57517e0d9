"""The figures of a job on a cluster: its status, its pods, and what its launchers say.

The launchers are asked through the API server, by way of the first member's pod, which knows what
all of them are doing; so this works from a laptop too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Json, Object, text
from mooring.backends.kubernetes.api.errors import KubeError
from mooring.backends.kubernetes.api.resources import POD, SECRET
from mooring.backends.kubernetes.client.jobs import pods_of_job
from mooring.backends.kubernetes.client.submit import JobProgress, progress_of
from mooring.backends.kubernetes.jobs.ask_launcher import ask_launcher
from mooring.backends.kubernetes.jobs.discretion import discreet_text
from mooring.backends.kubernetes.jobs.kubelets import ask_kubelets
from mooring.backends.kubernetes.jobs.training_job import (
    JobView,
    ParsedJob,
    parse_training_job,
    record_of,
)
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.live import MemberLive, parse_live
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.backends.kubernetes.objects.token import parse_token
from mooring.model.errors import BadInput
from mooring.model.member import MemberId, Pinning
from mooring.model.plan import Slot

_ASK_S = 10.0


@dataclass(frozen=True)
class MemberReport:
    """A member. `cpus` are those that it may really run on; `pinning` is what that means.

    `why_shared`: why they are not its alone; empty if they are, or if nobody can tell.
    """

    member: str
    node: str
    state: str
    starts: int
    cpus: str = ""
    exclusive: bool = False
    pinning: str = ""
    threads: int | None = None
    step: int | None = None
    total: int | None = None
    examples: float | None = None
    loss: float | None = None
    why_shared: str = ""


@dataclass(frozen=True)
class JobReport:
    namespace: str
    name: str
    progress: JobProgress
    pool: str
    epoch: int
    members: tuple[MemberReport, ...]
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        flat = asdict(self)
        return {**flat, **flat.pop("progress")}


async def report_of(client: Client, view: JobView) -> JobReport:
    objects, pods = await gang_pods(client, view)
    try:
        parsed = parse_training_job(view.object)
    except BadInput as error:
        return _rejected(view, discreet_text(error))
    ids = [member.id for member in parsed.gang.members]
    record = record_of(view, parsed)
    live, note = await _ask(client, view, pods.get(leader_of(ids, record.slots)))
    policies = await _policies(client, parsed, pods)
    qos = {text(obj, "metadata", "uid"): text(obj, "status", "qosClass") for obj in objects}
    members = tuple(
        _member(
            member,
            pods.get(member),
            live.get(member.name),
            asked=_exclusive(parsed, member),
            node=record.slots[member].node if member in record.slots else "",
            policy=policies,
            qos=qos,
        )
        for member in ids
    )
    return JobReport(
        view.namespace,
        view.name,
        progress_of(view.object),
        text(view.status, "pool"),
        record.state.epoch if record.state else record.epoch,
        members,
        (note,) if note and not progress_of(view.object).final else (),
    )


async def gang_pods(
    client: Client, view: JobView
) -> tuple[Sequence[Object], dict[MemberId, PodView]]:
    """The pods of a job, as the server has them and by member."""
    objects = await client.list(POD, view.namespace, f"{names.JOB}={view.name}")
    return objects, {pod.mark.member: pod for pod in pods_of_job(objects, view) if pod.mark}


def _rejected(view: JobView, why: str) -> JobReport:
    return JobReport(view.namespace, view.name, progress_of(view.object), "", 0, (), (why,))


def _exclusive(parsed: ParsedJob, member: MemberId) -> bool:
    pinning = next(other.pinning for other in parsed.gang.members if other.id == member)
    return pinning is Pinning.EXCLUSIVE


async def _ask(
    client: Client, view: JobView, leader: PodView | None
) -> tuple[Mapping[str, MemberLive], str]:
    """What the launchers say, or why they say nothing."""
    answer, why = await ask_leader(client, view, leader, "/status")
    return parse_live(answer), f"no figures of its members: {why}" if why else ""


async def ask_leader(
    client: Client, view: JobView, leader: PodView | None, path: str
) -> tuple[Json, str]:
    """What the first member's launcher answers to those who may read the job's token, or why it
    does not."""
    if leader is None or leader.container is None or not leader.container.running:
        return None, "the first one does not run"
    try:
        secret = await client.get(
            SECRET, names.token_secret_name(view.name, view.uid), view.namespace
        )
        call = ask_launcher(client, leader, parse_token(secret), path)
        return await asyncio.wait_for(call, _ASK_S), ""
    except TimeoutError:
        return None, f"{leader.name} does not answer"
    except KubeError as error:
        return None, str(error)


def leader_of(ids: Sequence[MemberId], slots: Mapping[MemberId, Slot]) -> MemberId:
    """The first member that has a place: the others meet at its pod."""
    return next((member for member in ids if member in slots), ids[0])


async def _policies(
    client: Client, parsed: ParsedJob, pods: Mapping[MemberId, PodView]
) -> dict[str, str]:
    """Node -> its kubelet's CPU manager policy, where we may ask and it matters."""
    nodes = {pod.node for member, pod in pods.items() if pod.node and _exclusive(parsed, member)}
    found = await ask_kubelets(client, nodes)
    return {node: policy.cpu_manager.value for node, policy in found.items()}


def _member(
    member: MemberId,
    pod: PodView | None,
    live: MemberLive | None,
    *,
    asked: bool,
    node: str,
    policy: Mapping[str, str],
    qos: Mapping[str, str],
) -> MemberReport:
    container = pod.container if pod else None
    starts = 0
    if pod is not None and pod.mark is not None and container is not None and container.started:
        starts = pod.mark.attempt + container.restarts + 1
    node = pod.node if pod and pod.node else node
    live = live or MemberLive()
    why_shared = why(live, asked, policy.get(node, ""), qos.get(pod.uid, "") if pod else "")
    return MemberReport(
        member.name,
        node,
        state_of(pod),
        starts,
        live.cpus,
        live.own,
        pinning_of(live, why_shared),
        live.threads,
        live.step,
        live.total,
        live.examples,
        live.loss,
        why_shared,
    )


def state_of(pod: PodView | None) -> str:
    """One or two words on a pod."""
    if pod is None:
        return "no pod"
    if pod.deleting:
        return "stopping"
    container = pod.container
    if pod.over:
        code = container.exit_code if container else None
        told = f" ({code})" if code else ""
        return f"{pod.phase.lower()}{told}"
    if container is not None and container.running:
        return "running"
    return (container.waiting if container else "") or ("starting" if pod.node else "unbound")


def why(live: MemberLive, asked: bool, policy: str, qos: str) -> str:
    """Why its CPUs are shared; empty if they are its own, or if nobody can tell."""
    if live.own:
        return ""
    if not asked:
        return "pinning was not asked for"
    if qos and qos != "Guaranteed":
        return f"its pod is {qos}, and only Guaranteed ones are pinned"
    if policy and policy != "static":
        return f"the kubelet's cpuManagerPolicy is {policy}"
    if live.why:
        said = "" if policy else "; its cpuManagerPolicy is unknown (no right to ask)"
        return f"{live.why}{said}"
    return ""


def pinning_of(live: MemberLive, why_shared: str) -> str:
    """Whether the CPUs are its own, and if they should be and are not, why not: for people."""
    if live.own:
        return "exclusive"
    if why_shared:
        return f"shared: {why_shared}"
    return "exclusive CPUs asked for; not known whether it has them"
