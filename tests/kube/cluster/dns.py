"""The cluster's DNS: names of services and of pods behind headless services.

A program: `python -m kube.cluster.dns ADDRESS KUBECONFIG`. Each question is answered from the API
server as it is at that moment, so nothing is ever stale. Other names do not exist for it. Records:
RFC 1035, and the Kubernetes DNS specification (dns-version 1.1.0).
"""

from __future__ import annotations

import socket
import socketserver
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from kube.cluster.client import ApiError, Client

DOMAIN = ("svc", "cluster", "local")
A = 1
NO_SUCH_NAME = 3


@dataclass(frozen=True)
class Question:
    id: int
    name: tuple[str, ...]
    type: int
    raw: bytes


def parse(packet: bytes) -> Question:
    """The first question; others are never sent."""
    [id_] = struct.unpack_from("!H", packet)
    labels, at = [], 12
    while size := packet[at]:
        labels.append(packet[at + 1 : at + 1 + size].decode("ascii", "replace").lower())
        at += 1 + size
    [type_] = struct.unpack_from("!H", packet, at + 1)
    return Question(id_, tuple(labels), type_, packet[12 : at + 5])


def answer(question: Question, addresses: list[str] | None) -> bytes:
    """None: there is no such name. A name without an address of that type is an empty answer."""
    given = addresses if addresses and question.type == A else []
    # 0x8580: a response, authoritative, recursion available.
    code = 0x8580 | (NO_SUCH_NAME if addresses is None else 0)
    packet = struct.pack("!6H", question.id, code, 1, len(given), 0, 0) + question.raw
    for address in given:
        # 0xC00C points at the question's name; class IN, time to live 0, four bytes.
        packet += struct.pack("!3HIH", 0xC00C, A, 1, 0, 4) + socket.inet_aton(address)
    return packet


@dataclass(frozen=True)
class Names:
    client: Client

    def addresses(self, name: tuple[str, ...]) -> list[str] | None:
        if name[-3:] != DOMAIN or len(name) not in (5, 6):
            return None
        *host, service, namespace = name[:-3]
        path = f"/api/v1/namespaces/{namespace}"
        try:
            cluster_ip = self.client.get(f"{path}/services/{service}")["spec"].get("clusterIP")
            if cluster_ip != "None":
                return [cluster_ip] if cluster_ip and not host else None
            endpoints = self.client.get(f"{path}/endpoints/{service}")
        except ApiError:
            return None
        found = [
            each["ip"]
            for subset in endpoints.get("subsets") or []
            for each in subset.get("addresses") or []
            if not host or each.get("hostname") == host[0]
        ]
        return found or None


def serve(address: str, names: Names) -> None:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            packet, channel = self.request
            question = parse(packet)
            channel.sendto(answer(question, names.addresses(question.name)), self.client_address)

    with socketserver.UDPServer((address, 53), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], Names(Client(Path(sys.argv[2]), timeout_s=5)))
