"""Machines that the cases are worked out on, and one way to write a case and its answer.

CPU sets are written as the kernel writes them. `free` are the CPUs that no container holds
exclusively, the reserved ones among them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.brain.kubelet import Container, KubeletAdmission, KubeletRejection, Reason, admit
from mooring.model.cluster import (
    Cpu,
    CpuManager,
    Gpu,
    KubeletPolicy,
    Node,
    TopologyManager,
    TopologyScope,
    format_cpus,
)
from mooring.spec.kubelet import parse_cpu_list

TOPOLOGY, SMT, UNEXPECTED = Reason.TOPOLOGY, Reason.SMT, Reason.UNEXPECTED


def machine(
    cpus: int,
    sockets: int = 1,
    cells_per_socket: int = 1,
    threads: int = 1,
    l3_per_cell: int = 1,
    gpu_cells: Sequence[int] = (),
    unhealthy: Sequence[int] = (),
    gpus_per_switch: int = 256,
    gpus_per_link_group: int = 256,
) -> Node:
    """Cores are numbered through; the siblings of CPU i are i + cores, i + 2 cores..."""
    cores = cpus // threads
    cells = sockets * cells_per_socket
    return Node(
        "n",
        tuple(
            Cpu(
                cpu,
                core := cpu % cores,
                core * cells * l3_per_cell // cores,
                core * cells // cores,
                core * sockets // cores,
            )
            for cpu in range(cpus)
        ),
        1000 * cpus,
        2**30,
        tuple(
            Gpu(i, cell, "", i // gpus_per_switch, i // gpus_per_link_group, i not in unhealthy)
            for i, cell in enumerate(gpu_cells)
        ),
    )


#: 2 sockets x 4 cores x 2 threads. Cell 0: 0-3,8-11; cell 1: 4-7,12-15; GPUs 0,1 and 2,3.
DUAL = machine(16, sockets=2, threads=2, gpu_cells=(0, 0, 1, 1))
#: The same with GPU 0 broken.
SICK = machine(16, sockets=2, threads=2, gpu_cells=(0, 0, 1, 1), unhealthy=(0,))
#: The same with 4 GPUs a cell: each linked to the 3 others there, 2 on a switch.
LINKED = machine(
    16, 2, threads=2, gpu_cells=(0,) * 4 + (1,) * 4, gpus_per_switch=2, gpus_per_link_group=4
)
#: 2 sockets x 8 cores without SMT. Cell 0: 0-7; cell 1: 8-15.
FLAT = machine(16, sockets=2)
#: EPYC-like: 1 socket in 4 cells of 4 cores x 2 threads, an L3 cache for every 2 cores.
#: Cell c: 4c to 4c+3 and 16+4c to 16+4c+3. One GPU at cell 2.
EPYC = machine(32, 1, 4, 2, l3_per_cell=2, gpu_cells=(2,))
#: One cell of 16 cores without SMT, an L3 cache for every 4.
CACHES = machine(16, l3_per_cell=4)
#: 2 sockets of 2 cells of 4 cores x 2 threads: the cells as in EPYC, 0,1 and 2,3 a socket.
QUAD = machine(32, sockets=2, cells_per_socket=2, threads=2)
#: 1 socket, a cell of 2 cores (0-1) and one of 6 (2-7), no SMT.
UNEVEN = Node("n", tuple(Cpu(i, i, 0, int(i > 1), 0) for i in range(8)), 8000, 2**30)
#: 2 sockets that are cells, of 4 cores (0-3) and of 8 (4-11), no SMT.
LOPSIDED = Node("n", tuple(Cpu(i, i, 0, int(i > 3), int(i > 3)) for i in range(12)), 12000, 2**30)
#: 1 socket, 2 cores x 4 threads: core 0 is 0,2,4,6.
FOURWAY = machine(8, threads=4)
#: 4 cores in one cell.
SMALL = machine(4)


def cpus(text: str) -> frozenset[int]:
    return parse_cpu_list(text) or frozenset()


def static(
    topology: str = "none", scope: str = "container", reserved: str = "", full: bool = False
) -> KubeletPolicy:
    return KubeletPolicy(
        CpuManager.STATIC, TopologyManager(topology), TopologyScope(scope), full, cpus(reserved)
    )


def want(cpu: float, gpus: int = 0, guaranteed: bool = True) -> Container:
    return Container.of(round(1000 * cpu), gpus, guaranteed)


def answer(
    node: Node,
    policy: KubeletPolicy,
    *containers: Container,
    free: str | None = None,
    gpus: str | None = None,
) -> list[str] | Reason:
    """`cpus` or `cpus +gpus` of each container (`-` = the shared pool), or why not."""
    free_cpus = frozenset(cpu.id for cpu in node.cpus) if free is None else cpus(free)
    free_gpus = frozenset(gpu.index for gpu in node.gpus) if gpus is None else cpus(gpus)
    result = admit(node, free_cpus, free_gpus, containers, policy)
    if isinstance(result, KubeletRejection):
        assert result.sentence
        assert "\n" not in result.sentence
        return result.reason
    assert isinstance(result, KubeletAdmission)
    return [
        (format_cpus(own) or "-") + (f" +{format_cpus(devices)}" if devices else "")
        for own, devices in zip(result.cpus, result.gpus, strict=True)
    ]
