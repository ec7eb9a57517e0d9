"""The process that carries out one job which the machine's queue has admitted.

`python -m mooring.supervise JOB_FOLDER ADMISSION`. It has a session of its own and needs nobody:
the service that started it may be stopped, replaced or killed meanwhile. Both talk by files in the
job's folder: what the service wants (`wanted.json`), and how this ended (`outcome-N.json`).

At most one supervisor of a job does anything: it holds the job's lock, and the service's wish
must be for its own admission.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mooring.app import NodeChoice, NoRoom, Promised, StoppedBefore, run_job
from mooring.backends.local.preparing import Given
from mooring.backends.local.queue.documents import (
    Admission,
    Ending,
    Outcome,
    Submission,
    SupervisorName,
)
from mooring.backends.local.queue.folders import JobFolder
from mooring.backends.local.queue.wanted_watch import WantedWatch, only_supervisor
from mooring.model.errors import MooringError
from mooring.model.status import Phase
from mooring.record import RunName, RunRecord
from mooring.record.private import is_full
from mooring.record.process_mark import mark_of
from mooring.report.finish import write_report
from mooring.run_loop import RunEnd

#: Exit codes that only the service's log shows.
_NOT_WANTED = 3
_UNREADABLE = 4
_SPACE_POLL_S = 1.0


def main(arguments: list[str]) -> int:
    folder, number = JobFolder(Path(arguments[0])), int(arguments[1])
    with only_supervisor(folder) as mine:
        wanted = folder.wanted() if mine else None
        if wanted is None or wanted.admission != number:
            return _NOT_WANTED
        if folder.supervisor(number) is not None:
            # Each admission is supervised once: this process was started very late.
            return _NOT_WANTED
        name = SupervisorName(pid=os.getpid(), mark=mark_of(os.getpid()))
        _once_there_is_space(lambda: folder.write_supervisor(number, name))
        admission, submission = folder.admission(number), folder.submission()
        if admission is None or submission is None:
            print("its admission or its submission cannot be read", file=sys.stderr)
            return _UNREADABLE
        outcome = _supervise(folder, admission, submission)
        _once_there_is_space(lambda: folder.write_outcome(number, outcome))
    return 0


def _once_there_is_space(write: Callable[[], None]) -> None:
    """On a full disk again and again: without what is to be written the service would guess."""
    while True:
        try:
            write()
            return
        except OSError as error:
            if not is_full(error):
                raise
        time.sleep(_SPACE_POLL_S)


def _supervise(folder: JobFolder, admission: Admission, submission: Submission) -> Outcome:
    watch = WantedWatch(folder, submission.name, admission)
    unused = admission.first_epoch - 1
    try:
        result = _run(folder, admission, submission, watch)
    except NoRoom as error:
        return _outcome(Ending.NO_ROOM, Phase.PENDING, str(error), unused, admission.restarts)
    except StoppedBefore as error:
        ending = Ending.ENDED if watch.released is None else Ending.RELEASED
        return _outcome(ending, Phase.STOPPED, str(error), unused, admission.restarts)
    except MooringError as error:
        if is_full(error.__cause__):
            said = f"the disk was full: {error}"
            return _outcome(Ending.NO_ROOM, Phase.PENDING, said, unused, admission.restarts)
        return _outcome(Ending.ENDED, Phase.FAILED, str(error), unused, admission.restarts)
    except Exception as error:
        traceback.print_exc()
        said = f"a defect of Mooring ({type(error).__name__}): see {folder.log_file}"
        return _outcome(Ending.ENDED, Phase.FAILED, said, unused, admission.restarts)
    write_report(result.run)
    ending = Ending.ENDED
    if result.phase is Phase.STOPPED and result.reason == watch.released:
        ending = Ending.RELEASED
    elif result.phase is Phase.STOPPED and result.signals:
        # Nobody stops a job so: the machine goes down, or somebody ends all processes.
        ending = Ending.INTERRUPTED
    return _outcome(ending, result.phase, result.reason, result.epoch, result.restarts)


def _outcome(ending: Ending, phase: Phase, reason: str, epoch: int, restarts: int) -> Outcome:
    return Outcome(
        ending=ending, phase=phase, reason=reason, epoch=max(0, epoch), restarts=restarts
    )


def _run(
    folder: JobFolder, admission: Admission, submission: Submission, watch: WantedWatch
) -> RunEnd:
    job = folder.job(submission.source)
    environment = folder.environment()
    if environment is None:
        raise MooringError("the environment that it was submitted with is gone")
    os.umask(submission.umask)
    given = Given(
        variables=environment.given,
        env_files=submission.env_files,
        check=submission.check,
        environment=environment.variables,
        files_dir=folder.files_dir if job.spec.files else None,
    )

    def started(run: RunRecord) -> None:
        watch.run = run
        _print_into(run)

    return run_job(
        job,
        job_dir=Path(submission.folder),
        where=NodeChoice(admission.virtual_nodes, admission.nic_mbps),
        source=submission.source,
        on_start=started,
        stop_when=watch.reason,
        stacks=submission.stacks,
        stops_by_signal=False,
        given=given,
        promised=Promised(
            RunName(admission.run_id, admission.token),
            submission.id,
            watch.plan,
            admission.first_epoch,
            admission.restarts,
        ),
    )


def _print_into(run: RunRecord) -> None:
    """From here on into the run's folder, as a run with `--detach` does."""
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        output = os.open(run.output_file, flags, 0o600)
        for fd in (1, 2):
            os.dup2(output, fd)
        os.close(output)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
