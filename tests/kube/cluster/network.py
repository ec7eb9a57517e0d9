"""The addresses of a bed: one flat network for this machine, its nodes and their pods.

Everything is on one link, so nothing is routed and no forwarding is switched on: the bridge, this
machine, is 10.X.0.1; node N is 10.X.N.1 and its pods are 10.X.N.2 and up; services are in
10.X.255.0/24, of which only the API's address (the first) and the DNS server's exist, on the
bridge.
"""

from __future__ import annotations

import ipaddress
import random
from dataclasses import dataclass
from pathlib import Path

SECOND_BYTES = range(100, 250)


@dataclass(frozen=True)
class Network:
    second: int

    @classmethod
    def choose(cls, token: str) -> Network:
        """One that no route of this machine touches."""
        taken = _routes()
        order = list(SECOND_BYTES)
        random.Random(token).shuffle(order)
        for second in order:
            mine = ipaddress.ip_network(f"10.{second}.0.0/16")
            if not any(mine.overlaps(route) for route in taken):
                return cls(second)
        raise OSError("no 10.X.0.0/16 is free on this machine")

    @property
    def subnet(self) -> str:
        return f"10.{self.second}.0.0/16"

    @property
    def host(self) -> str:
        return f"10.{self.second}.0.1"

    @property
    def services(self) -> str:
        return f"10.{self.second}.255.0/24"

    @property
    def api(self) -> str:
        """The address of the Service `kubernetes`."""
        return f"10.{self.second}.255.1"

    @property
    def dns(self) -> str:
        return f"10.{self.second}.255.10"

    def node(self, number: int) -> str:
        return f"10.{self.second}.{number}.1"

    def pods(self, number: int) -> tuple[str, str]:
        """The first and the last address of a node's pods."""
        return f"10.{self.second}.{number}.2", f"10.{self.second}.{number}.254"


def _routes() -> list[ipaddress.IPv4Network]:
    found = []
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        if mask != "00000000":
            address, bits = (
                int.from_bytes(bytes.fromhex(x), "little") for x in (destination, mask)
            )
            found.append(ipaddress.ip_network((address, bits.bit_count())))
    return [each for each in found if isinstance(each, ipaddress.IPv4Network)]
