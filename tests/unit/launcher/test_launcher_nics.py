"""Cards of interfaces: this machine's own addresses, and trees as sysfs shows them elsewhere."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from mooring.launcher import nics
from mooring.launcher.sockets import pack_address

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """Two cards on cell 1 and one on cell 0; bonds of them; a VLAN; one that does not tell."""
    for name, cell in {"eth0": "1", "eth1": "1", "eth2": "0", "virt": "-1"}.items():
        (tmp_path / name / "device").mkdir(parents=True)
        (tmp_path / name / "device" / "numa_node").write_text(f"{cell}\n")
    below = {"bond0": ["eth0", "eth1"], "bond1": ["eth0", "eth2"], "vlan": ["bond0"], "veth": []}
    for name, cards in below.items():
        (tmp_path / name).mkdir()
        for card in cards:
            (tmp_path / name / f"lower_{card}").symlink_to(tmp_path / card)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("eth0", 1),
        ("eth2", 0),
        ("virt", None),
        ("bond0", 1),
        ("bond1", None),
        ("vlan", 1),
        ("veth", None),
        ("none", None),
    ],
)
def test_the_cell_of_a_card(net: Path, name: str, cell: int | None) -> None:
    assert nics.card_cell(str(net), name) == cell


def test_this_machine_has_addresses() -> None:
    found = nics.interfaces()
    assert found[socket.inet_aton("127.0.0.1")] == "lo"
    assert nics.hardware_address("lo") == "00:00:00:00:00:00"
    assert nics.hardware_address("nothing-like-it") == ""


@pytest.mark.parametrize(
    ("address", "cell", "cells"),
    [
        ("00:00:00:00:00:00", "1", {"lo": 1}),
        # Somebody else's interface of the same name; a device that does not tell.
        ("02:00:00:00:00:01", "1", {}),
        ("00:00:00:00:00:00", "-1", {}),
    ],
)
def test_an_interface_counts_if_it_is_ours(
    tmp_path: Path, address: str, cell: str, cells: dict[str, int]
) -> None:
    (tmp_path / "lo" / "device").mkdir(parents=True)
    (tmp_path / "lo" / "address").write_text(f"{address}\n")
    (tmp_path / "lo" / "device" / "numa_node").write_text(cell)
    cards = nics.Nics(str(tmp_path))
    assert cards.of(pack_address("127.0.0.1")) == ("lo" if cells else "")
    assert cards.of(pack_address("203.0.113.7")) == ""
    assert cards.cells == cells


@pytest.mark.parametrize(("online", "looks"), [("0", False), ("0-1", True), ("", False)])
def test_with_one_cell_nothing_is_far(tmp_path: Path, online: str, looks: bool) -> None:
    (tmp_path / "online").write_text(online)
    assert (nics.find(online=str(tmp_path / "online")) is not None) is looks
