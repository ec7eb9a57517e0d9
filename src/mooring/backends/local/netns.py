"""Network namespaces, bridges and rate limits, by iproute2.

One run with virtual nodes owns one bridge and, for each node, one namespace, one veth pair and
one address. All names carry the run's token, so that what a killed run left can be recognised.
The bridge has no address on the machine itself: nothing of the machine's own network is
touched, and runs cannot reach each other.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mooring.model.errors import RunFailed

NAMESPACE_PREFIX = "moor-"
BRIDGE_PREFIX = "mb"
_VETH_PREFIX = "mv"
NODE_INTERFACE = "eth0"
#: tbf queues at most this long before it drops: two round trips of a slow link.
_LATENCY = "50ms"


def namespace_name(token: str, node: int) -> str:
    return f"{NAMESPACE_PREFIX}{token}-{node}"


def namespace_path(name: str) -> str:
    return f"/run/netns/{name}"


@dataclass(frozen=True)
class NodeLink:
    """One virtual node's place on the bridge."""

    namespace: str
    address: str
    prefix: int
    nic_mbps: int | None


def why_not() -> str | None:
    """Why this process cannot make virtual nodes, or None if it can (tried for real)."""
    if not sys.platform.startswith("linux"):
        return "virtual nodes need Linux"
    if os.geteuid() != 0:
        return "virtual nodes need root"
    for tool in ("ip", "tc", "unshare"):
        if shutil.which(tool) is None:
            return f"virtual nodes need `{tool}` (install iproute2 and util-linux)"
    try:
        _run(["unshare", "--net", "ip", "link", "set", "lo", "up"])
    except RunFailed as error:
        return f"this kernel or container does not allow network namespaces ({error})"
    return None


def create(token: str, links: Sequence[NodeLink]) -> None:
    """Make the bridge and all nodes; on failure remove what was made and raise RunFailed."""
    bridge = f"{BRIDGE_PREFIX}{token}"
    try:
        _batch(
            ["ip"],
            [f"link add {bridge} type bridge", f"link set {bridge} up"]
            + [
                line
                for index, link in enumerate(links)
                for line in (
                    f"netns add {link.namespace}",
                    f"link add {_VETH_PREFIX}{token}-{index} type veth "
                    f"peer name {NODE_INTERFACE} netns {link.namespace}",
                    f"link set {_VETH_PREFIX}{token}-{index} master {bridge} up",
                )
            ],
        )
        for index, link in enumerate(links):
            _batch(
                ["ip", "-n", link.namespace],
                [
                    "link set lo up",
                    f"address add {link.address}/{link.prefix} dev {NODE_INTERFACE}",
                    f"link set {NODE_INTERFACE} up",
                ],
            )
            if link.nic_mbps is not None:
                # Both directions: egress of the node's end, and of its peer on the bridge.
                shape = _shape(link.nic_mbps)
                _run(["tc", "-n", link.namespace, "qdisc", "add", "dev", NODE_INTERFACE, *shape])
                _run(["tc", "qdisc", "add", "dev", f"{_VETH_PREFIX}{token}-{index}", *shape])
    except RunFailed:
        remove(token)
        raise


def _shape(nic_mbps: int) -> list[str]:
    # The bucket must hold what arrives in one timer tick (10 ms covers HZ=100) and at least a
    # few full-size segments, otherwise the rate is not reached.
    burst_bytes = max(64 * 1024, nic_mbps * 1_000_000 // 8 // 100)
    return [
        "root",
        "tbf",
        "rate",
        f"{nic_mbps}mbit",
        "burst",
        str(burst_bytes),
        "latency",
        _LATENCY,
    ]


def remove(token: str) -> None:
    """Remove everything that carries the token. Processes in it must have ended before."""
    for name in namespaces():
        if name.startswith(f"{NAMESPACE_PREFIX}{token}-"):
            _run(["ip", "netns", "delete", name], check=False)
    for interface in interfaces():
        if interface.startswith((f"{_VETH_PREFIX}{token}-", f"{BRIDGE_PREFIX}{token}")):
            _run(["ip", "link", "delete", interface], check=False)


def left_tokens() -> set[str]:
    """The run tokens found in names of namespaces and bridges on this machine."""
    if shutil.which("ip") is None:
        return set()
    tokens = {
        token
        for name in namespaces()
        if name.startswith(NAMESPACE_PREFIX)
        and _is_token(token := name[len(NAMESPACE_PREFIX) :].rsplit("-", 1)[0])
    }
    for interface in interfaces():
        token = interface[len(BRIDGE_PREFIX) :].split("-")[0]
        if interface.startswith((BRIDGE_PREFIX, _VETH_PREFIX)) and _is_token(token):
            tokens.add(token)
    return tokens


def _is_token(text: str) -> bool:
    return len(text) == 6 and all(letter in "0123456789abcdef" for letter in text)


def namespaces() -> list[str]:
    # `ip -j netns list` prints nothing at all when there are none.
    return [str(entry["name"]) for entry in json.loads(_run(["ip", "-j", "netns", "list"]) or "[]")]


def interfaces() -> list[str]:
    answer = json.loads(_run(["ip", "-j", "link", "show"]) or "[]")
    return [str(entry["ifname"]) for entry in answer]


def interface_bytes(token: str, count: int) -> list[tuple[int, int]]:
    """(received, sent) bytes of each virtual node, from its peer on the bridge: mirrored."""
    counters: dict[str, tuple[int, int]] = {}
    with open("/proc/net/dev", encoding="ascii") as file:  # noqa: PTH123 (a kernel file)
        for line in file:
            name, colon, rest = line.partition(":")
            if colon and name.strip().startswith(f"{_VETH_PREFIX}{token}-"):
                fields = rest.split()
                counters[name.strip()] = (int(fields[8]), int(fields[0]))
    return [counters.get(f"{_VETH_PREFIX}{token}-{index}", (0, 0)) for index in range(count)]


def _batch(command: Sequence[str], lines: Iterable[str]) -> None:
    """Many iproute2 commands in one process: 50 nodes in one fork instead of 150."""
    _run([*command, "-batch", "-"], text="\n".join(lines) + "\n")


def _run(argv: Sequence[str], *, text: str = "", check: bool = True) -> str:
    answer = subprocess.run(
        list(argv), input=text, capture_output=True, text=True, check=False, timeout=60
    )
    if check and answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        raise RunFailed(f"`{' '.join(argv)}`: {said[0] if said else answer.returncode}")
    return answer.stdout
