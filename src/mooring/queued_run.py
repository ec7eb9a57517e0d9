"""A run in front of a terminal on a machine that has a queue: it waits for its turn, then runs
where the queue has put it.

Without a service, or when it is gone, the run takes what is free, as everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from mooring import frameworks
from mooring.app import NodeChoice, NoRoom, Promised, Refused, StoppedBefore
from mooring.backends.local.holders import of_machine
from mooring.backends.local.machine import this_machine
from mooring.backends.local.occupancy import NodeCut
from mooring.backends.local.preparing import Given, prepare
from mooring.backends.local.queue.client import NoService, ServiceClient, ServiceFailed
from mooring.backends.local.queue.documents import Admission, Ending, Outcome
from mooring.backends.local.queue.turn import EndedInQueue, Turn, WaitingPlace
from mooring.model.plan import Refusal
from mooring.model.status import Phase
from mooring.placing import plan_job
from mooring.record import RunName
from mooring.run_loop import RunEnd
from mooring.spec import TrainingJob

#: For a service that hangs; one that has a thousand jobs answers in a tenth of a second.
_TIMEOUT_S = 10.0


class CarryOut(Protocol):
    """Runs the job to its end: on these nodes, in the promised place if there is one, until
    `wanted_to_stop` gives a reason."""

    def __call__(
        self,
        where: NodeChoice,
        promised: Promised | None = None,
        wanted_to_stop: Callable[[], str | None] = lambda: None,
    ) -> RunEnd: ...


@dataclass(frozen=True)
class RunRequest:
    """A job that is to run here, as `run_job` takes it."""

    job: TrainingJob
    job_dir: Path
    source: str
    where: NodeChoice
    given: Given


@dataclass(frozen=True)
class QueueNotices:
    """What a person in front of the terminal hears: `waits` again and again while the job waits,
    `note` once."""

    waits: Callable[[WaitingPlace], None]
    note: Callable[[str], None]


def run_in_turn(asked: RunRequest, carry_out: CarryOut, told: QueueNotices) -> RunEnd:
    """Run the job when the queue lets it. Raises what `run_job` raises, and BadInput for a job that
    the queue does not take; whoever waits no more has left the queue."""
    client = ServiceClient(timeout_s=_TIMEOUT_S)
    try:
        where = _where(client, asked.where)
        if where is None:
            told.note("it does not go through the queue: its --nodes are not those of `moor serve`")
            return carry_out(asked.where)
        _check(asked, where)
        while True:
            turn = Turn.ask(client, asked.job, str(asked.job_dir.absolute()), asked.source)
            admission = _wait(turn, told)
            if admission is None:
                told.note("the service is gone: it runs without the queue")
                return carry_out(asked.where)
            try:
                return _run(turn, admission, asked.job.metadata.name, where, carry_out)
            except NoRoom as error:
                told.note(f"{error}; it queues again")
    except NoService:
        # Killed, it has left its socket.
        return carry_out(asked.where)
    except ServiceFailed as error:
        told.note(f"it runs without the queue: {error}")
        return carry_out(asked.where)


def _where(client: ServiceClient, asked: NodeChoice) -> NodeChoice | None:
    """The queue's nodes; None if the user asked for others."""
    service = client.get("/service")
    nodes, nic_mbps = int(service["virtual_nodes"]), service["nic_mbps"]
    if asked.virtual_nodes and asked.virtual_nodes != nodes:
        return None
    if asked.nic_mbps is not None and asked.nic_mbps != nic_mbps:
        return None
    return replace(asked, virtual_nodes=nodes, nic_mbps=nic_mbps)


def _check(asked: RunRequest, where: NodeChoice) -> None:
    """Nobody waits for what is wrong already. Raises what `run_job` would, and Refused for a job
    that has no place on the empty machine."""
    gang = frameworks.expand(asked.job, asked.source)
    prepare(asked.job, gang, asked.job_dir, asked.given, asked.source)
    machine = NodeCut(this_machine(), where.virtual_nodes, where.nic_mbps).snapshot([])
    _, plan = plan_job(asked.job, machine, asked.source, scores=False)
    if isinstance(plan, Refusal):
        raise Refused(replace(plan, sentence=of_machine(plan.sentence)))


def _wait(turn: Turn, told: QueueNotices) -> Admission | None:
    try:
        return turn.wait(told.waits)
    except EndedInQueue as error:
        raise StoppedBefore(str(error)) from error
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        turn.leave("interrupted" if interrupted else str(error))
        raise


def _run(
    turn: Turn, admission: Admission, job: str, where: NodeChoice, carry_out: CarryOut
) -> RunEnd:
    """The service hears how it ended, also if this process does more after that."""
    ending, phase, reason = Ending.ENDED, Phase.FAILED, "a defect of Mooring"
    epoch, restarts = max(0, admission.first_epoch - 1), admission.restarts
    with turn.supervises(admission, job) as watch:
        promised = Promised(
            RunName(admission.run_id, admission.token),
            turn.job_id,
            watch.plan,
            admission.first_epoch,
            admission.restarts,
        )
        try:
            result = carry_out(where, promised, watch.reason)
            phase, reason = result.phase, result.reason
            epoch, restarts = result.epoch, result.restarts
            return result
        except NoRoom as error:
            ending, phase, reason = Ending.NO_ROOM, Phase.PENDING, str(error)
            raise
        except StoppedBefore as error:
            phase, reason = Phase.STOPPED, str(error)
            raise
        except KeyboardInterrupt:
            phase, reason = Phase.STOPPED, "interrupted"
            raise
        except Exception as error:
            reason = str(error)
            raise
        finally:
            outcome = Outcome(
                ending=ending, phase=phase, reason=reason, epoch=epoch, restarts=restarts
            )
            turn.write_outcome(admission, outcome)
