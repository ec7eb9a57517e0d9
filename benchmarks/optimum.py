"""The exact answer on small clusters, from OR-Tools CP-SAT: what a planner's quality is held to.

The model knows amounts on each node, whole CPUs, and NUMA cells where a kubelet with the policy
`single-numa-node` insists on one; gangs are whole or absent, pools stay within their caps. It knows
no preferences: presets that only weigh scores leave it free to place as it likes, and it chooses
the cell itself where a kubelet would choose. So it is never worse than any plan that can be
carried out. Presets and rules that require something are not in it and are refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from mooring.model.cluster import CpuManager, KubeletPolicy, Node, TopologyManager
from mooring.model.member import Gang, Member, Pinning, Preset
from mooring.model.plan import Plan
from mooring.model.resources import Resources

_MIB = 1 << 20
#: More GPUs stranded are worse than any number of CPUs.
_GPU_WEIGHT = 10_000


@dataclass(frozen=True)
class Ask:
    """What one member takes: whole CPUs of its own, or a part of the shared ones."""

    role: str
    whole_cpus: int
    shared_millis: int
    memory_mib: int
    gpus: int


@dataclass(frozen=True)
class Spot:
    """A node, and the cell there if the member must keep to one."""

    node: int
    cell: int | None = None


@dataclass(frozen=True)
class Answer:
    """`best` is the value found, `proven` whether no other is better."""

    best: float
    proven: bool
    placed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Stranded:
    """Whole free GPUs on nodes where no member that asks for GPUs could be added, and whole free
    CPUs on nodes where no member at all could be."""

    gpus: int
    cpus: int
    proven: bool = True


def ask_of(member: Member) -> Ask:
    millis, exclusive = member.resources.cpu_millis, member.pinning is Pinning.EXCLUSIVE
    if not millis or member.ports or member.node_selector or member.tolerations:
        raise ValueError(f"{member.name} asks for what the model does not know")
    return Ask(
        member.id.role,
        -(-millis // 1000) if exclusive else 0,
        0 if exclusive else millis,
        -(-member.resources.memory_bytes // _MIB),
        member.resources.gpus,
    )


class Model:
    """Which of these gangs are there, and how many members of each kind are on each spot."""

    def __init__(self, nodes: Sequence[Node], gangs: Sequence[Gang]) -> None:
        self.nodes = nodes
        self.cp = cp_model.CpModel()
        self.there = {gang.job: self.cp.new_bool_var(gang.job) for gang in gangs}
        self.counts: dict[tuple[str, Ask, Spot], cp_model.IntVar] = {}
        for gang in gangs:
            self._add(gang)
        for index in range(len(nodes)):
            self._limit(index)

    def _add(self, gang: Gang) -> None:
        required = any(rule.required for rule in gang.rules)
        if required or gang.preset in (Preset.COLOCATE, Preset.ISOLATE) or not gang.all_or_nothing:
            raise ValueError(f"{gang.job} requires what the model does not know")
        for ask, size in Counter(ask_of(member) for member in gang.members).items():
            mine = []
            for spot in spots(self.nodes, ask):
                most = min(size, _alone(self.nodes[spot.node], spot, ask))
                if most:
                    name = f"{gang.job} {ask.role} {spot.node} {spot.cell}"
                    count = self.cp.new_int_var(0, most, name)
                    self.counts[gang.job, ask, spot] = count
                    mine.append(count)
            self.cp.add(sum(mine) == size * self.there[gang.job])

    def _limit(self, index: int) -> None:
        node = self.nodes[index]
        self.cp.add(self.whole_cpus(index) <= len(node.cpus))
        self.cp.add(1000 * self.whole_cpus(index) + self.shared_millis(index) <= _millis(node))
        self.cp.add(self.memory_mib(index) <= node.memory_bytes // _MIB)
        self.cp.add(self.gpus(index) <= _gpus(node))
        if node.kubelet is not None:
            for cell in node.cells:
                self.cp.add(self.whole_cpus(index, cell) <= cell_cpus(node, cell))
                self.cp.add(self.gpus(index, cell) <= _gpus(node, cell))

    def _sum(self, what: str, index: int, cell: int | None) -> cp_model.LinearExpr:
        here = [
            (count, getattr(ask, what))
            for (_, ask, spot), count in self.counts.items()
            if spot.node == index and cell in (None, spot.cell)
        ]
        return _weighed(here)

    def whole_cpus(self, index: int, cell: int | None = None) -> cp_model.LinearExpr:
        return self._sum("whole_cpus", index, cell)

    def shared_millis(self, index: int) -> cp_model.LinearExpr:
        return self._sum("shared_millis", index, None)

    def memory_mib(self, index: int) -> cp_model.LinearExpr:
        return self._sum("memory_mib", index, None)

    def gpus(self, index: int, cell: int | None = None) -> cp_model.LinearExpr:
        return self._sum("gpus", index, cell)

    def cap(self, jobs: Sequence[Gang], cap: Resources) -> None:
        """What these gangs hold together stays within the cap."""
        charges = [(self.there[gang.job], charge_of(gang)) for gang in jobs]
        for held, most in (
            ([(there, one.cpu_millis) for there, one in charges], cap.cpu_millis),
            (
                [(there, one.memory_bytes // _MIB) for there, one in charges],
                cap.memory_bytes // _MIB,
            ),
            ([(there, one.gpus) for there, one in charges], cap.gpus),
        ):
            self.cp.add(_weighed(held) <= most)

    def fix(self, gang: Gang, plan: Plan) -> None:
        """This gang is exactly where the plan puts it."""
        self.cp.add(self.there[gang.job] == 1)
        where = _spots_of(self.nodes, gang, plan)
        for (job, ask, spot), count in self.counts.items():
            if job == gang.job:
                self.cp.add(count == where.pop((ask, spot), 0))
        if where:
            raise ValueError(f"{gang.job} is where the model allows nobody to be: {where}")

    def hint(self, gang: Gang, plan: Plan | None) -> None:
        self.cp.add_hint(self.there[gang.job], plan is not None)
        where = Counter[tuple[Ask, Spot]]()
        if plan is not None:
            where = _spots_of(self.nodes, gang, plan)
        for (job, ask, spot), count in self.counts.items():
            if job == gang.job:
                self.cp.add_hint(count, where[ask, spot])

    def solve(self, seconds: float) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 2
        return solver, solver.solve(self.cp)


def most_gangs(
    nodes: Sequence[Node],
    gangs: Sequence[Gang],
    pool_of: Mapping[str, str],
    caps: Mapping[str, Resources],
    found: Mapping[str, Plan],
    seconds: float,
) -> Answer:
    """The most gangs that can be there at once. `found` is a place to start looking from."""
    model = Model(nodes, gangs)
    for pool, cap in caps.items():
        model.cap([gang for gang in gangs if pool_of[gang.job] == pool], cap)
    for gang in gangs:
        model.hint(gang, found.get(gang.job))
    model.cp.maximize(sum(model.there.values()))
    solver, status = model.solve(seconds)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(len(found), False, frozenset(found))
    placed = frozenset(job for job, there in model.there.items() if solver.value(there))
    return Answer(len(placed), status == cp_model.OPTIMAL, placed)


def accepts(nodes: Sequence[Node], gangs: Sequence[Gang], plans: Mapping[str, Plan]) -> bool:
    """Are these plans, all at once, possible as the model sees it?"""
    model = Model(nodes, [gang for gang in gangs if gang.job in plans])
    for gang in gangs:
        if gang.job in plans:
            model.fix(gang, plans[gang.job])
    return model.solve(10.0)[1] == cp_model.OPTIMAL


def least_stranded(
    nodes: Sequence[Node],
    gangs: Sequence[Gang],
    asks: Sequence[Ask],
    found: Mapping[str, Plan],
    seconds: float,
) -> Stranded | None:
    """All these gangs placed so that as little as possible is stranded for such members."""
    model = Model(nodes, gangs)
    cp = model.cp
    for gang in gangs:
        cp.add(model.there[gang.job] == 1)
        model.hint(gang, found.get(gang.job))
    gpus, cpus = [], []
    for index, node in enumerate(nodes):
        for_gpus, for_any = cp.new_bool_var(""), cp.new_bool_var("")
        rooms = [
            (ask, _room(model, Spot(index, spot.cell), ask))
            for ask in dict.fromkeys(asks)
            for spot in spots([node], ask)
        ]
        cp.add_bool_or([room for ask, room in rooms if ask.gpus] + [~for_gpus])
        cp.add_bool_or([room for _, room in rooms] + [~for_any])
        lost_gpus = cp.new_int_var(0, _gpus(node), "")
        lost_cpus = cp.new_int_var(0, len(node.cpus), "")
        cp.add(lost_gpus >= _gpus(node) - model.gpus(index)).only_enforce_if(~for_gpus)
        left = _millis(node) - 1000 * model.whole_cpus(index) - model.shared_millis(index)
        # A free part of a CPU is no whole one: lost > left / 1000 - 1, in integers.
        cp.add(1000 * lost_cpus >= left - 999).only_enforce_if(~for_any)
        gpus.append(lost_gpus)
        cpus.append(lost_cpus)
    cp.minimize(_GPU_WEIGHT * sum(gpus) + sum(cpus))
    solver, status = model.solve(seconds)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    lost = [sum(solver.value(one) for one in each) for each in (gpus, cpus)]
    return Stranded(lost[0], lost[1], status == cp_model.OPTIMAL)


def stranded(
    nodes: Sequence[Node], gangs: Sequence[Gang], asks: Sequence[Ask], plans: Mapping[str, Plan]
) -> Stranded:
    """What these plans strand for such members."""
    gpus = cpus = 0
    held = Counter[tuple[Ask, Spot]]()
    for gang in gangs:
        if gang.job in plans:
            held.update(_spots_of(nodes, gang, plans[gang.job]))
    for index, node in enumerate(nodes):
        here = {key: count for key, count in held.items() if key[1].node == index}
        able = [ask for ask in asks if any(_fits(node, here, s, ask) for s in spots([node], ask))]
        if not any(ask.gpus for ask in able):
            gpus += _gpus(node) - sum(ask.gpus * n for (ask, _), n in here.items())
        if not able:
            cpus += _left_millis(node, here) // 1000
    return Stranded(gpus, cpus)


def least_busy(nodes: Sequence[Node], gang: Gang, seconds: float) -> Answer | None:
    """The shortest time, in seconds a step, that the busiest NIC can have; None without a plan.

    A node with w of W workers and s of S servers carries w(S - s) + s(W - w) exchanges.
    """
    if gang.traffic is None or any(not node.nic_mbps for node in nodes):
        raise ValueError("traffic and the speed of every NIC must be known")
    model = Model(nodes, [gang])
    cp = model.cp
    cp.add(model.there[gang.job] == 1)
    servers = sum(member.id.role in gang.server_roles for member in gang.members)
    workers = len(gang.members) - servers
    speeds = [node.nic_mbps or 1 for node in nodes]
    unit = math.lcm(*speeds)
    most = 2 * servers * workers * (unit // min(speeds))
    busiest = cp.new_int_var(0, most, "busiest")
    for index, speed in enumerate(speeds):
        here = [(ask, n) for (_, ask, spot), n in model.counts.items() if spot.node == index]
        serving = _weighed([(n, 1) for ask, n in here if ask.role in gang.server_roles])
        working = _weighed([(n, 1) for ask, n in here if ask.role not in gang.server_roles])
        both = cp.new_int_var(0, servers * workers, "")
        cp.add_multiplication_equality(both, [serving, working])
        load = working * servers + serving * workers - 2 * both
        cp.add(load * (unit // speed) <= busiest)
    cp.minimize(busiest)
    solver, status = model.solve(seconds)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    pair_bits = 8 * gang.traffic.bytes_per_step / servers
    value = solver.value(busiest) * pair_bits / (unit * 1_000_000)
    return Answer(value, status == cp_model.OPTIMAL, frozenset({gang.job}))


def _weighed(terms: Sequence[tuple[cp_model.IntVar, int]]) -> cp_model.LinearExpr:
    return cp_model.LinearExpr.weighted_sum([one for one, _ in terms], [n for _, n in terms])


def charge_of(gang: Gang) -> Resources:
    asks = [ask_of(member) for member in gang.members]
    return Resources(
        sum(1000 * ask.whole_cpus + ask.shared_millis for ask in asks),
        sum(ask.memory_mib for ask in asks) * _MIB,
        sum(ask.gpus for ask in asks),
    )


def spots(nodes: Sequence[Node], ask: Ask) -> list[Spot]:
    """Where such a member may be at all."""
    found = []
    for index, node in enumerate(nodes):
        if node.kubelet is None:
            found.append(Spot(index))
            continue
        _check(node.kubelet)
        if ask.whole_cpus:
            found.extend(Spot(index, cell) for cell in node.cells)
        elif not ask.gpus:  # devices without CPUs of one's own are lost under a static policy
            found.append(Spot(index))
    return found


def _check(kubelet: KubeletPolicy) -> None:
    known = (CpuManager.STATIC, TopologyManager.SINGLE_NUMA_NODE, False)
    has = (kubelet.cpu_manager, kubelet.topology_manager, kubelet.full_physical_cores_only)
    if has != known:
        raise ValueError(f"the model does not know such a kubelet: {kubelet}")


def cell_cpus(node: Node, cell: int) -> int:
    """CPUs of the cell that can be somebody's own."""
    reserved = node.kubelet.reserved_cpus if node.kubelet else frozenset()
    return sum(cpu.cell == cell and cpu.id not in reserved for cpu in node.cpus)


def _gpus(node: Node, cell: int | None = None) -> int:
    return sum(gpu.healthy and cell in (None, gpu.cell) for gpu in node.gpus)


def _millis(node: Node) -> int:
    return min(node.cpu_millis, 1000 * len(node.cpus))


def _alone(node: Node, spot: Spot, ask: Ask) -> int:
    """How many such members an empty spot holds."""
    count = 0
    here = {(ask, spot): count}
    while _fits(node, here, spot, ask):
        count += 1
        here = {(ask, spot): count}
    return count


def _left_millis(node: Node, here: Mapping[tuple[Ask, Spot], int]) -> int:
    used = sum((1000 * ask.whole_cpus + ask.shared_millis) * n for (ask, _), n in here.items())
    return _millis(node) - used


def _fits(node: Node, here: Mapping[tuple[Ask, Spot], int], spot: Spot, ask: Ask) -> bool:
    """One such member more, beside those that are here?"""
    memory_mib = node.memory_bytes // _MIB - sum(one.memory_mib * n for (one, _), n in here.items())
    gpus = _gpus(node) - sum(one.gpus * n for (one, _), n in here.items())
    if (
        1000 * ask.whole_cpus + ask.shared_millis > _left_millis(node, here)
        or ask.memory_mib > memory_mib
        or ask.gpus > gpus
    ):
        return False
    if spot.cell is None:
        return True
    near = [(one, n) for (one, at), n in here.items() if at.cell == spot.cell]
    cpus = cell_cpus(node, spot.cell) - sum(one.whole_cpus * n for one, n in near)
    gpus = _gpus(node, spot.cell) - sum(one.gpus * n for one, n in near)
    return ask.whole_cpus <= cpus and ask.gpus <= gpus


def _room(model: Model, spot: Spot, ask: Ask) -> cp_model.IntVar:
    """True only if one such member more would fit there."""
    cp, node, index = model.cp, model.nodes[spot.node], spot.node
    room = cp.new_bool_var("")
    used = 1000 * model.whole_cpus(index) + model.shared_millis(index)
    asked = 1000 * ask.whole_cpus + ask.shared_millis
    cp.add(used + asked <= _millis(node)).only_enforce_if(room)
    memory_mib = node.memory_bytes // _MIB
    cp.add(model.memory_mib(index) + ask.memory_mib <= memory_mib).only_enforce_if(room)
    cp.add(model.gpus(index) + ask.gpus <= _gpus(node)).only_enforce_if(room)
    if spot.cell is not None:
        cpus, gpus = cell_cpus(node, spot.cell), _gpus(node, spot.cell)
        held = model.whole_cpus(index, spot.cell)
        cp.add(held + ask.whole_cpus <= cpus).only_enforce_if(room)
        cp.add(model.gpus(index, spot.cell) + ask.gpus <= gpus).only_enforce_if(room)
    return room


def _spots_of(nodes: Sequence[Node], gang: Gang, plan: Plan) -> Counter[tuple[Ask, Spot]]:
    index = {node.name: number for number, node in enumerate(nodes)}
    members = {member.id: member for member in gang.members}
    found = Counter[tuple[Ask, Spot]]()
    for placement in plan.placements:
        slot, ask = placement.slot, ask_of(members[placement.member])
        node = nodes[index[slot.node]]
        cell = None
        if node.kubelet is not None and ask.whole_cpus:
            homes = {gpu.cell for gpu in node.gpus if gpu.index in slot.gpus} | set(slot.cells)
            if len(homes) != 1:
                raise ValueError(f"{placement.member} of {gang.job} spans cells {homes}")
            cell = homes.pop()
        found[ask, Spot(index[slot.node], cell)] += 1
    return found
