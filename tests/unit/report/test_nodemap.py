"""Node maps: every thread and device carries the letter of its holder, in both drawings."""

from __future__ import annotations

from io import StringIO
from xml.etree import ElementTree

from rich.console import Console

from mooring.model.cluster import Cpu, Gpu, KubeletPolicy, Node, NodeUse, Snapshot
from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot
from mooring.report.nodemap import NodeMap, cells_of, draw, node_maps
from mooring.report.nodemap_svg import svg

SVG = "{http://www.w3.org/2000/svg}"

# 2 sockets = cells of 4 cores x 2 threads, 2 L3 groups each: siblings i and i + 8.
BIG = Node(
    "big",
    tuple(Cpu(i, i % 8, i % 8 // 2, i % 8 // 4, i % 8 // 4) for i in range(16)),
    16000,
    64 * 2**30,
    (Gpu(0, 0), Gpu(1, 0), Gpu(2, 1), Gpu(3, 1, healthy=False)),
    kubelet=KubeletPolicy(reserved_cpus=frozenset({0, 8})),
)
IDLE = Node("idle", (Cpu(0, 0, 0, 0, 0),), 1000, 2**30)


def plan(job: str, *slots: Slot) -> Plan:
    return Plan(job, tuple(Placement(MemberId("worker", i), slot) for i, slot in enumerate(slots)))


OWN = Slot("big", (1, 9), (0,), (1,), exclusive=True)
SHARED = Slot("big", (4, 5), (1,), (2,), exclusive=False)
USE = {"big": NodeUse(cpus=frozenset({6, 14}), gpus=frozenset({0}))}


def maps() -> tuple[NodeMap, ...]:
    return node_maps(Snapshot((IDLE, BIG), USE), [plan("train", OWN, SHARED)])


def on_terminal(drawn: tuple[NodeMap, ...]) -> str:
    console = Console(file=StringIO(), width=100)
    console.print(draw(drawn))
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def test_every_thread_and_device_has_a_mark() -> None:
    (drawn,) = maps()
    assert drawn.node.name == "big"
    marks = "".join(drawn.cpu_marks[cpu] for cpu in range(16))
    #      0: kept, 1: worker-0, 6: others; their siblings are 8 further on
    assert marks == "RA····x·" * 2
    assert [drawn.gpu_parts[gpu] for gpu in range(4)] == [((mark, 1000),) for mark in "xAB!"]
    assert drawn.marks == ("·", "R", "x", "!")


def test_a_shared_card_is_drawn_in_parts() -> None:
    quarter = Slot("big", (4, 5), (0,), (1,), gpu_share_millis=250)
    half = Slot("big", (4, 5), (0,), (1,), gpu_share_millis=500)
    use = {"big": NodeUse(gpu_shares=((2, 600),))}
    drawn = node_maps(Snapshot((BIG,), use), [plan("train", quarter, half)])
    assert drawn[0].gpu_parts[1] == (("A", 250), ("B", 500), ("·", 250))
    assert drawn[0].gpu_parts[2] == (("x", 600), ("·", 400))
    text = on_terminal(drawn)
    assert "0:· 1:AB·" in text
    assert "A worker-0: shares CPUs 4-5, 0.25 of GPU 1" in text
    boxes = [
        float(box.get("width", "0"))
        for box in ElementTree.fromstring(svg(drawn)).iter(f"{SVG}rect")
        if box.get("class") == "gpu"
    ]
    # cards 0 and 3 whole, card 1 in three parts, card 2 in two: each card is 52 wide
    assert boxes == [52, 13, 26, 13, 31.2, 20.8, 52]


def test_a_terminal_shows_cells_cores_and_caches() -> None:
    text = on_terminal(maps())
    assert "big: 16 CPUs, 4 GPUs, 64Gi" in text
    assert "RR AA │ ·· ··" in text
    assert "·· ·· │ xx ··" in text
    assert "0:x 1:A" in text
    assert "2:B 3:!" in text
    assert "A worker-0: CPUs 1,9, GPUs 1" in text
    assert "B worker-1: shares CPUs 4-5, GPUs 2" in text
    assert "kept by the kubelet" in text


def test_the_svg_says_the_same() -> None:
    root = ElementTree.fromstring(svg(maps()))
    (drawn,) = maps()
    shown = {
        group.findtext(f"{SVG}title"): group.findtext(f"{SVG}text")
        for group in root.iter(f"{SVG}g")
        if group.find(f"{SVG}title") is not None
    }
    assert shown == {f"CPU {cpu}": mark for cpu, mark in drawn.cpu_marks.items()}
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"socket 0", "socket 1", "cell 0", "cell 1", "GPU 1 A", "GPU 3 !"} <= set(words)
    assert "worker-0: CPUs 1,9, GPUs 1" in words


def test_names_are_told_apart_and_escaped() -> None:
    both = node_maps(Snapshot((BIG,)), [plan("a<b", OWN), plan("c", SHARED)])
    picture = svg(both)
    ElementTree.fromstring(picture)
    assert "a&lt;b/worker-0" in picture
    assert "c/worker-0" in picture


def test_boxes_stay_inside_their_picture() -> None:
    wide = Node("wide", tuple(Cpu(i, i, i // 64, 0, 0) for i in range(256)), 256000, 2**40)
    root = ElementTree.fromstring(
        svg(node_maps(Snapshot((wide,)), [plan("j", Slot("wide", (0,), exclusive=True))]))
    )
    width = float(root.attrib["width"])
    assert all(float(box.attrib["width"]) < width for box in root.iter(f"{SVG}rect"))
    (cell,) = cells_of(wide)
    assert [len(group) for group in cell.l3_groups] == [64] * 4
    assert max(map(len, on_terminal(node_maps(Snapshot((wide,)), [])).splitlines() or [""])) <= 100


def test_many_nodes_and_many_holders_are_cut_short() -> None:
    nodes = tuple(Node(f"n{i}", IDLE.cpus, 1000, 2**30) for i in range(120))
    many = node_maps(Snapshot(nodes), [plan("j", *(Slot(node.name, (0,)) for node in nodes))])
    assert "… and 100 more nodes" in on_terminal(many)
    assert "… and 20 more nodes" in svg(many)
    crowd = node_maps(Snapshot((IDLE,)), [plan("j", *[Slot("idle", (0,))] * 60)])
    assert "+ worker-59" in on_terminal(crowd)


def test_devices_of_a_cell_without_cpus_are_drawn() -> None:
    node = Node("far", (Cpu(0, 0, 0, 0, 0),), 1000, 2**30, (Gpu(0, 5),))
    assert [cell.cell for cell in cells_of(node)] == [0, 5]
    assert [len(cell.gpus) for cell in cells_of(node)] == [0, 1]
