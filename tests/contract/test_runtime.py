"""What every runtime must do, one suite for all of them.

A runtime is made by a factory below; what is tested here is only the protocol of
`mooring.backends.base`: events out, instructions in, nothing left after `close`. A behaviour is
the same thing told twice: as the code that a real member runs, and as the script of a simulated.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from mooring.backends.base import Order, Runtime
from mooring.backends.local import netns
from mooring.backends.local.contract import LauncherSettings
from mooring.backends.local.nodes import LocalNodes, local_snapshot
from mooring.backends.local.runtime import LocalRuntime
from mooring.backends.simulated.runtime import Script, SimulatedRuntime
from mooring.brain import place
from mooring.lifecycle import Event, MemberExited, MemberReady, MemberRunning
from mooring.model.cluster import Cpu, Node, Snapshot
from mooring.model.launch import Launch, LocalProcess
from mooring.model.member import Gang, Member, MemberId, Preset
from mooring.model.plan import Plan
from mooring.record import create_run
from support.moor import leftovers


@dataclass(frozen=True)
class Behaviour:
    """What members do, in both worlds."""

    code: str
    script: Script


FOREVER = Behaviour("import time; time.sleep(600)", Script(math.inf))
STUBBORN = Behaviour(
    f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER.code}",
    Script(math.inf, stop_s=math.inf),
)
ENDS_AT_ONCE = Behaviour("pass", Script(0.0))


def exits_with(code: int) -> Behaviour:
    return Behaviour(f"raise SystemExit({code})", Script(0.0, code))


@dataclass
class Stage:
    """A runtime with one gang of workers, and what it has reported."""

    runtime: Runtime
    gang: Gang
    plan: Plan
    now_s: Callable[[], float]
    """The time that the runtime goes by."""
    leftovers: Callable[[], list[str]]
    """What is left of the members, after `close` nothing."""
    seen: list[Event] = field(default_factory=list)
    scripts: dict[MemberId, Script] = field(default_factory=dict)

    def start(self, behaviour: Behaviour, epoch: int = 0, attempt: int = 0) -> None:
        self.scripts.update(dict.fromkeys(self.ids, behaviour.script))
        self.runtime.start(
            [
                Order(
                    member,
                    self.plan.slot_of(member.id),
                    Launch((sys.executable, "-S", "-c", behaviour.code), {}, (LocalProcess(0),)),
                    epoch,
                    attempt,
                )
                for member in self.gang.members
            ]
        )

    def wait(self, done: Callable[[list[Event]], bool], what: str) -> None:
        deadline = time.monotonic() + 30
        while not done(self.seen):
            assert time.monotonic() < deadline, f"never: {what}; saw {self.seen}"
            self.seen += self.runtime.poll(self.now_s(), 0.05)

    def wait_all(self, kind: type[Event]) -> None:
        count = len(self.gang.members)
        self.wait(lambda seen: sum(isinstance(e, kind) for e in seen) == count, kind.__name__)

    @property
    def ids(self) -> list[MemberId]:
        return [member.id for member in self.gang.members]


def workers(members: int = 2) -> Gang:
    return Gang(
        job="contract",
        members=tuple(
            Member(MemberId("worker", index), "contract", ports={"main": 0})
            for index in range(members)
        ),
        preset=Preset.SPREAD,
    )


def placed(gang: Gang, snapshot: Snapshot) -> Plan:
    plan = place(gang, snapshot)
    assert isinstance(plan, Plan)
    return plan


def local_stage(tmp_path: Path, virtual_nodes: int) -> Stage:
    gang = workers()
    snapshot = local_snapshot(virtual_nodes, None)
    plan = placed(gang, snapshot)
    run = create_run(
        "contract", directory=None, virtual_nodes=virtual_nodes, source="", version="0"
    )
    settings = LauncherSettings(tmp_path, None, 30.0, 5.0, "sdk", None, None)
    nodes = LocalNodes(run, snapshot, virtual=virtual_nodes > 0)
    runtime = LocalRuntime(run, nodes, settings)
    return Stage(runtime, gang, plan, time.monotonic, lambda: leftovers(run))


def simulated_stage(_: Path) -> Stage:
    cpus = tuple(Cpu(index, index, 0, 0, 0) for index in range(4))
    nodes = tuple(Node(f"node-{index}", cpus, 4000, 2**33) for index in range(2))
    snapshot = Snapshot(nodes)
    gang = workers()
    scripts: dict[MemberId, Script] = {}
    runtime = SimulatedRuntime(snapshot, lambda order: scripts[order.member.id])
    left = lambda: [member.name for member in runtime.alive]  # noqa: E731
    plan = placed(gang, snapshot)
    return Stage(runtime, gang, plan, runtime.clock.now_s, left, scripts=scripts)


BODIES = [
    pytest.param(partial(local_stage, virtual_nodes=0), id="local-plain"),
    pytest.param(
        partial(local_stage, virtual_nodes=2),
        id="local-virtual",
        marks=pytest.mark.skipif(netns.why_not() is not None, reason=str(netns.why_not())),
    ),
    pytest.param(simulated_stage, id="simulated"),
]


@pytest.fixture(params=BODIES)
def stage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path / "home"))
    make: Callable[[Path], Stage] = request.param
    made = make(tmp_path)
    try:
        yield made
    finally:
        made.runtime.close()
        assert made.leftovers() == []


def has_run(stage: Stage, mark: Path) -> bool:
    return bool(stage.runtime.ran) if isinstance(stage.runtime, SimulatedRuntime) else mark.exists()


def test_nothing_runs_before_the_gate_opens(stage: Stage, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    stage.runtime.prepare(stage.gang, stage.plan, 0)
    stage.start(Behaviour(f"open({str(mark)!r}, 'w')", Script(0.0)))
    stage.wait_all(MemberReady)
    assert not has_run(stage, mark)
    assert not any(isinstance(event, MemberRunning) for event in stage.seen)
    stage.runtime.open_gate(stage.ids)
    stage.wait_all(MemberExited)
    assert has_run(stage, mark)
    assert sum(isinstance(event, MemberRunning) for event in stage.seen) == 2
    exits = {event for event in stage.seen if isinstance(event, MemberExited)}
    assert exits == {MemberExited(member, 0, 0, 0) for member in stage.ids}


def test_an_exit_code_comes_with_its_epoch_and_attempt(stage: Stage) -> None:
    stage.runtime.prepare(stage.gang, stage.plan, 3)
    stage.start(exits_with(7), epoch=3, attempt=2)
    stage.wait_all(MemberReady)
    stage.runtime.open_gate(stage.ids)
    stage.wait_all(MemberExited)
    found = {
        (e.member, e.epoch, e.attempt, e.exit_code)
        for e in stage.seen
        if isinstance(e, MemberExited)
    }
    assert found == {(member, 3, 2, 7) for member in stage.ids}


@pytest.mark.parametrize(
    ("behaviour", "grace_s", "exit_codes"),
    [
        (FOREVER, 5.0, {143}),
        # The launcher's own grace of 5 s is cut short: no grace means SIGKILL at once.
        (STUBBORN, 0.0, {137}),
    ],
)
def test_stopping_ends_members(
    stage: Stage, behaviour: Behaviour, grace_s: float, exit_codes: set[int]
) -> None:
    stage.runtime.prepare(stage.gang, stage.plan, 0)
    stage.start(behaviour)
    stage.wait_all(MemberReady)
    stage.runtime.open_gate(stage.ids)
    stage.wait_all(MemberRunning)
    stage.runtime.stop(stage.ids, grace_s, stage.now_s())
    stage.wait_all(MemberExited)
    assert {e.exit_code for e in stage.seen if isinstance(e, MemberExited)} == exit_codes


def test_members_can_be_stopped_at_the_gate(stage: Stage) -> None:
    stage.runtime.prepare(stage.gang, stage.plan, 0)
    stage.start(FOREVER)
    stage.runtime.stop(stage.ids, 5.0, stage.now_s())
    stage.wait_all(MemberExited)
    assert not any(isinstance(event, MemberRunning) for event in stage.seen)


def test_addresses_are_distinct_and_new_in_each_epoch(stage: Stage) -> None:
    for epoch in (0, 1):
        addresses = stage.runtime.prepare(stage.gang, stage.plan, epoch)
        assert set(addresses) == set(stage.ids)
        reached = {(a.host, port) for a in addresses.values() for port in a.ports.values()}
        assert len(reached) == len(stage.ids)


def test_a_second_epoch_follows_the_first(stage: Stage) -> None:
    for epoch in (0, 1):
        stage.seen.clear()
        stage.runtime.prepare(stage.gang, stage.plan, epoch)
        stage.start(ENDS_AT_ONCE, epoch=epoch)
        stage.wait_all(MemberReady)
        stage.runtime.open_gate(stage.ids)
        stage.wait_all(MemberExited)
        assert {e.epoch for e in stage.seen if isinstance(e, MemberExited)} == {epoch}


@pytest.mark.parametrize("moment", ["made", "prepared", "started", "ready", "running"])
def test_closing_at_any_moment_leaves_nothing(stage: Stage, moment: str) -> None:
    """The fixture closes once more and looks for leftovers."""
    if moment != "made":
        stage.runtime.prepare(stage.gang, stage.plan, 0)
    if moment in ("started", "ready", "running"):
        stage.start(STUBBORN)
    if moment in ("ready", "running"):
        stage.wait_all(MemberReady)
    if moment == "running":
        stage.runtime.open_gate(stage.ids)
        stage.wait_all(MemberRunning)
    stage.runtime.close()
    assert stage.leftovers() == []
