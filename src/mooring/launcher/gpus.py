"""What NVML, the driver's own library, tells of the member's cards: use, memory, PCIe, processes.

Which NUMA cell a card hangs off is sysfs's to tell: NVML knows it only of cards that are cells.

Called through ctypes: the launcher depends on nothing. Without the library there is nothing to
tell; one that refuses is told, because training then fails or hangs for reasons that nobody sees:
a container whose control group was rewritten loses its devices ("Unknown Error").
"""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
# nvml.h: nvmlReturn_t and nvmlPcieUtilCounter_t.
_SUCCESS, _INSUFFICIENT_SIZE, _IS_LOST, _UNKNOWN = 0, 7, 15, 999
_PCIE_TX, _PCIE_RX = 0, 1
_PCI = "/sys/bus/pci/devices"


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    ]


class Gpus:
    """The cards of a member; `error`: why the driver does not answer, `lost`: any more."""

    def __init__(self, library: Any, wanted: list[int] | None, pci: str = _PCI) -> None:
        self._nvml = library
        self._pci = pci
        self._places: dict[int, dict[str, int]] = {}
        self._cards: dict[int, Any] = {}
        self._turn = 0
        self.lost = ""
        self.error = self._open(wanted)

    def _open(self, wanted: list[int] | None) -> str:
        code = self._nvml.nvmlInit_v2()
        if code != _SUCCESS:
            return self._text(code)
        count = ctypes.c_uint()
        self._nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            if wanted is None or index in wanted:
                handle = ctypes.c_void_p()
                code = self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
                if code != _SUCCESS:
                    return self._text(code)
                self._cards[index] = handle
                self._places[index] = self._place(handle)
        return ""

    def _place(self, handle: Any) -> dict[str, int]:
        """The card's NUMA cell and its link to the rest of the machine, as far as they are told."""
        place: dict[str, int] = {}
        where = _Pci()
        ask = getattr(self._nvml, "nvmlDeviceGetPciInfo_v3", None)
        if ask is not None and ask(handle, ctypes.byref(where)) == _SUCCESS:
            name = "%04x:%02x:%02x.0" % (where.domain, where.bus, where.device)
            cell = device_cell("%s/%s" % (self._pci, name))
            if cell is not None:
                place["cell"] = cell
        # An idle card lowers the speed of its lanes, not their number.
        for key, function in (
            ("link_gen", "nvmlDeviceGetMaxPcieLinkGeneration"),
            ("link_width", "nvmlDeviceGetCurrPcieLinkWidth"),
        ):
            value, ask = ctypes.c_uint(), getattr(self._nvml, function, None)
            if ask is not None and ask(handle, ctypes.byref(value)) == _SUCCESS:
                place[key] = value.value
        return place

    def measure(self) -> dict[str, Any]:
        """Card -> figures; a figure that a card does not have is left out."""
        found: dict[str, Any] = {}
        for index, handle in self._cards.items():
            card: dict[str, Any] = dict(self._places[index])
            use, memory, count = _Utilization(), _Memory(), ctypes.c_uint(0)
            code = self._nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(use))
            if code == _SUCCESS:
                card["busy"] = use.gpu
            elif code in (_IS_LOST, _UNKNOWN):
                self.error = self.lost = self._text(code)
            if self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == _SUCCESS:
                card["memory_bytes"], card["memory_used_bytes"] = memory.total, memory.used
            # With room for none it says how many there are.
            processes = self._nvml.nvmlDeviceGetComputeRunningProcesses_v3
            if processes(handle, ctypes.byref(count), None) in (_SUCCESS, _INSUFFICIENT_SIZE):
                card["processes"] = count.value
            found[str(index)] = card
        self._pcie(found)
        return found

    def _pcie(self, found: dict[str, Any]) -> None:
        """Of one card a sample, in turn: NVML watches the bus for 20 ms to answer."""
        if not self._cards:
            return
        index = sorted(self._cards)[self._turn % len(self._cards)]
        self._turn += 1
        for name, counter in (("tx_kbytes_per_s", _PCIE_TX), ("rx_kbytes_per_s", _PCIE_RX)):
            value = ctypes.c_uint()
            ask = self._nvml.nvmlDeviceGetPcieThroughput
            if ask(self._cards[index], counter, ctypes.byref(value)) == _SUCCESS:
                found[str(index)][name] = value.value

    def _text(self, code: int) -> str:
        say = self._nvml.nvmlErrorString
        say.restype = ctypes.c_char_p
        return "%s (%d)" % ((say(code) or b"?").decode("ascii", "replace"), code)


def find(wanted: list[int] | None, library: str = _LIBRARY) -> Gpus | None:
    """None where there is no driver, or no card for this member."""
    if wanted is not None and not wanted:
        return None
    try:
        return Gpus(ctypes.CDLL(library), wanted)
    except (OSError, AttributeError):
        # No library, or one so old that it lacks a function that is asked for.
        return None


def device_cell(folder: str) -> int | None:
    """The NUMA cell of a device by its folder in sysfs; None where the machine does not say."""
    try:
        with open(folder + "/numa_node", encoding="ascii") as file:
            cell = int(file.read())
    except (OSError, ValueError):
        return None
    return cell if cell >= 0 else None
