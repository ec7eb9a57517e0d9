"""Through which network card a socket talks, and on which NUMA cell that card is.

A socket's own address tells its interface. Cards are looked up in sysfs, which may show another
network namespace than ours (a virtual node has an `eth0` as well): a card counts only if its
hardware address is that of our interface. RDMA goes past sockets and is not seen.
"""

from __future__ import annotations

import array
import os
import socket
import struct

from . import cgroups, procfs
from .gpus import device_cell

try:
    from fcntl import ioctl
except ImportError:  # pragma: no cover (no Unix)
    ioctl = None  # type: ignore[assignment]

_NET = "/sys/class/net"
_INET6 = "/proc/net/if_inet6"
_ONLINE = "/sys/devices/system/node/online"
# linux/sockios.h
_SIOCGIFCONF, _SIOCGIFHWADDR = 0x8912, 0x8927
# struct ifreq: a name and a union of 24 bytes (16 where pointers have four).
_NAME_BYTES, _REQUEST_BYTES = 16, 16 + 8 + 2 * struct.calcsize("P")
_MOST_INTERFACES = 256
# A bond of a bond does not exist; a VLAN on a bond on cards does.
_DEEPEST = 3


class Nics:
    """Local addresses to cards whose cell is known; what was found once is not looked for again."""

    def __init__(self, net: str = _NET) -> None:
        self._net = net
        self._known: dict[bytes, str] = {}
        self.cells: dict[str, int] = {}

    def of(self, address: bytes) -> str:
        """The interface with this address; empty where its cell is not known."""
        if address not in self._known:
            name = interfaces().get(address, "")
            cell = self._cell(name) if name else None
            if cell is not None:
                self.cells[name] = cell
            self._known[address] = name if cell is not None else ""
        return self._known[address]

    def _cell(self, name: str) -> int | None:
        shown = procfs.read("%s/%s/address" % (self._net, name)).decode("ascii", "replace").strip()
        if not shown or shown != hardware_address(name):
            return None
        return card_cell(self._net, name)


def find(net: str = _NET, online: str = _ONLINE) -> Nics | None:
    """None where nothing can be far: one cell, or no way to ask."""
    cells = cgroups.parse_list(procfs.read(online).decode("ascii", "replace"))
    return Nics(net) if len(cells) > 1 and ioctl is not None else None


def card_cell(net: str, name: str, deep: int = _DEEPEST) -> int | None:
    """The cell of a card, or of the cards below a bond or a VLAN if they are on one cell."""
    folder = "%s/%s" % (net, name)
    cell = device_cell(folder + "/device")
    if cell is not None or not deep:
        return cell
    below = [one[6:] for one in procfs.names(folder) if one.startswith("lower_")]
    cells = {card_cell(net, one, deep - 1) for one in below}
    return cells.pop() if len(cells) == 1 else None


def interfaces() -> dict[bytes, str]:
    """Address -> interface of this network namespace."""
    found: dict[bytes, str] = {}
    for line in procfs.read(_INET6).decode("ascii", "replace").splitlines():
        fields = line.split()
        if len(fields) == 6:
            found[bytes.fromhex(fields[0])] = fields[5]
    buffer = array.array("B", bytes(_MOST_INTERFACES * _REQUEST_BYTES))
    where, _ = buffer.buffer_info()
    size = _ask(_SIOCGIFCONF, struct.pack("iP", len(buffer), where))
    used = struct.unpack_from("i", size)[0] if size else 0
    for at in range(0, used, _REQUEST_BYTES):
        request = buffer[at : at + _REQUEST_BYTES].tobytes()
        name = os.fsdecode(request[:_NAME_BYTES].rstrip(b"\0"))
        # An alias (`eth0:1`) is of the same card.
        found[request[_NAME_BYTES + 4 : _NAME_BYTES + 8]] = name.partition(":")[0]
    return found


def hardware_address(name: str) -> str:
    answer = _ask(_SIOCGIFHWADDR, os.fsencode(name)[:15].ljust(_REQUEST_BYTES, b"\0"))
    return ":".join("%02x" % one for one in answer[18:24])


def _ask(request: int, argument: bytes) -> bytes:
    """Empty if the kernel refuses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            return ioctl(any_socket.fileno(), request, argument)
        except OSError:
            return b""
