"""What API servers, their users, kubelets and pods send."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.entry import entry
from mooring.backends.kubernetes.api import codec
from mooring.backends.kubernetes.api.errors import api_error
from mooring.backends.kubernetes.api.kubeconfig import load_access
from mooring.backends.kubernetes.api.streams import Frames, LineStream
from mooring.backends.kubernetes.client.submit import progress_of
from mooring.backends.kubernetes.jobs.live_figures import all_done, counts_of, pinning_of
from mooring.backends.kubernetes.jobs.pools import parse_pool
from mooring.backends.kubernetes.jobs.training_job import parse_training_job, parse_view, record_of
from mooring.backends.kubernetes.objects import storage
from mooring.backends.kubernetes.objects.kubelet import parse_configz
from mooring.backends.kubernetes.objects.live import parse_live
from mooring.backends.kubernetes.objects.nodes import parse_node
from mooring.backends.kubernetes.objects.pods import parse_pod
from mooring.backends.kubernetes.objects.topology import parse_topology
from mooring.operator import webhook
from mooring.spec.load import check_job

_SEEDS = json.loads((Path(__file__).parent / "seeds/cluster.json").read_text())
_REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "r",
        "operation": "UPDATE",
        "namespace": "n",
        "object": _SEEDS["TrainingJob"],
        "oldObject": {**_SEEDS["TrainingJob"], "spec": {}},
    },
}
_KUBECONFIG = b"""apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u, namespace: n}}]
clusters: [{name: k, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: x}}]
"""


def _object(name: str, seed: str, read: Callable[[Any], object]) -> None:
    @entry(name, [json.dumps(_SEEDS[seed])], ValueError, group="clusters")
    def given(data: bytes) -> None:
        value = codec.read(data)
        if isinstance(value, dict):
            read(value)


def _job(obj: Any) -> None:
    view = parse_view(obj)
    progress_of(obj)
    record_of(view, parse_training_job(obj))


def _figures(answer: Any) -> None:
    live = parse_live(answer)
    counts_of(live)
    all_done(live)
    for words in pinning_of(live).values():
        assert len(words) <= 1024


_object("TrainingJob of a cluster", "TrainingJob", _job)
_object("Pool of a cluster", "pool", parse_pool)
_object("pod", "pod", parse_pod)
_object("volumes of a pod", "pod", storage.mounted_by)
_object("node", "node", parse_node)
_object("claim", "claim", storage.parse_claim)
_object("volume", "volume", storage.parse_volume)
_object("figures of pods", "live", _figures)
_object("a kubelet's settings", "kubelet", parse_configz)
_object("NodeResourceTopology", "topology", parse_topology)
_object("error of an API server", "error", lambda answer: api_error(409, answer, "GET x"))


@entry("webhook's review", [json.dumps(_REVIEW)], group="clusters")
def review(data: bytes) -> None:
    """As the handler reads it; what it would answer 400 is a refusal, any other error a defect."""
    try:
        uid, admission = webhook._parts(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    problems = webhook.refusals(admission, lambda obj: check_job(obj, "job"))
    json.dumps(webhook._answer(uid, problems))


@entry(
    "watch, by the line",
    [b'{"type":"ADDED","object":{}}\n{"type":"BOOKMARK"}\n'],
    ValueError,
    group="clusters",
)
def watch_lines(data: bytes) -> None:
    cutter = LineStream()
    for begin in range(0, len(data), 1000):
        for line in cutter.whole(data[begin : begin + 1000]):
            codec.read(line)
    cutter.last()


@entry("watch, by length", [b"\x00\x00\x00\x04text\x00\x00\x00\x00"], ValueError, group="clusters")
def watch_frames(data: bytes) -> None:
    cutter = Frames()
    for begin in range(0, len(data), 1000):
        list(cutter.whole(data[begin : begin + 1000]))
    cutter.last()


@entry(
    "pods in protobuf",
    [b"k8s\x00\n\x00\x12\x00", b"k8s\x00\n\x07\n\x02v1\x12\x01P\x12\x04\n\x02\n\x00"],
    ValueError,
    group="clusters",
)
def protobuf(data: bytes) -> None:
    for media in (codec.PROTOBUF, f"{codec.PROTOBUF};stream=watch"):
        try:
            codec.read(data, media)
        except ValueError:
            continue


@entry("kubeconfig", [_KUBECONFIG], group="clusters")
def kubeconfig(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config")
        path.write_bytes(data)
        load_access(None, path)
