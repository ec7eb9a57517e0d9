"""`mooring.connect`: a program submits jobs to a real queue, follows them, and outlives the
service."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mooring
from support.service import Service, service_in
from support.waiting import until

_STEPS = """
import mooring, os, sys, time
for done in range(1, 4):
    if done == 3:
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.02)
    mooring.step(examples=10, loss=1 / done, step=done, total=3)
    print("line", done, flush=True)
print(os.environ.get("MY_SECRET", "nothing"))
"""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with service_in(tmp_path / "home") as service:
        monkeypatch.setenv("MOORING_HOME", str(service.moor.home))
        monkeypatch.setenv("PATH", service.moor.env["PATH"])
        monkeypatch.chdir(tmp_path)
        yield service
    assert service.left() == []


def job(folder: Path, **spec: Any) -> dict[str, Any]:
    """Its third step comes once the file `go` is there."""
    (folder / "train.py").write_text(_STEPS)
    settings = {
        "framework": "indexed",
        "command": [sys.executable, "train.py", str(folder / "go")],
        "roles": {"worker": {"replicas": 2}},
        "gracePeriod": "1s",
    }
    return {"metadata": {"name": "py"}, "spec": {**settings, **spec}}


def test_a_job_is_followed_from_its_submission_to_its_end(service: Service, tmp_path: Path) -> None:
    queue = mooring.connect()
    run = queue.submit(job(tmp_path), variables={"MY_SECRET": "s3cret"})
    assert run.id == "py-1"
    steps = []
    for step in run.steps():
        steps.append(step)
        if {(one.member, one.step) for one in steps} == {
            (f"worker-{index}", number) for index in range(2) for number in (1, 2)
        }:
            progress = run.progress()
            assert (progress.steps, progress.total_steps, progress.ended) == (2, 3, False)
            (tmp_path / "go").touch()
    assert sorted((one.member, one.step, one.loss) for one in steps) == [
        (f"worker-{index}", number, 1 / number) for index in range(2) for number in (1, 2, 3)
    ]
    assert (steps[0].total, steps[0].examples, steps[0].rank, steps[0].count) == (3, 10, 0, 1)
    result = run.wait()
    assert (result.succeeded, result.phase, result.run) == (True, "Succeeded", run.status().run)
    assert result.report is not None
    assert (result.report.steps, len(result.report.members)) == (3, 2)
    assert run.report() == result.report
    assert result.directory == service.moor.only_run().root
    lines = [line.text for line in run.logs("worker-1")]
    assert lines == ["line 1", "line 2", "line 3", "s3cret"]
    assert [line.text for line in run.logs("worker", last=1)] == ["s3cret"] * 2
    assert len(list(run.logs())) == 8
    assert run.doctor().checked
    assert [each.id for each in queue.runs()] == [run.id]
    assert queue.runs(unfinished=True) == []


def test_a_job_is_waited_for_over_a_kill_of_the_service(service: Service, tmp_path: Path) -> None:
    run = mooring.connect().submit(job(tmp_path))
    lines = []
    for line in run.logs("worker-0", follow=True):
        lines.append(line.text)
        if line.text == "line 2":
            service.kill()
            (tmp_path / "go").touch()
            service.start()
    assert lines == ["line 1", "line 2", "line 3", "nothing"]
    assert run.wait(60).succeeded


def test_jobs_that_wait_are_listed_stopped_and_have_no_run(
    service: Service, tmp_path: Path
) -> None:
    queue = mooring.connect(service.moor.home)
    large = {"worker": {"replicas": 1, "resources": {"cpu": 100_000}}}
    first, second = (queue.submit(job(tmp_path, roles=large)) for _ in range(2))
    assert [each.id for each in queue.runs(unfinished=True)] == [second.id, first.id]
    assert [each.id for each in queue.runs(limit=1)] == [second.id]
    assert len(queue.runs(limit=5000)) == 2
    status = until(lambda: first.status() if first.status().reason else None, "why it waits")
    assert (status.phase, status.ended, status.run, status.position) == ("Queued", False, "", 1)
    with pytest.raises(mooring.NotFound, match="has no run yet"):
        first.report()
    assert list(first.logs()) == []
    with pytest.raises(TimeoutError, match=f"{first.id} has not ended"):
        first.wait(0.1)
    first.stop()
    result = first.wait(30)
    assert (result.phase, result.succeeded, result.report, result.directory) == (
        "Stopped",
        False,
        None,
        None,
    )
    assert list(first.steps()) == []
    assert queue.run(second.id).status().position == 1
    with pytest.raises(mooring.NotFound):
        queue.run("../nobody")


def test_what_is_wrong_is_told_before_anything_is_queued(service: Service, tmp_path: Path) -> None:
    queue = mooring.connect()
    with pytest.raises(mooring.BadInput, match=r"spec\.framework"):
        queue.submit(job(tmp_path, framework="none"))
    with pytest.raises(mooring.BadInput, match="sets from the member's identity"):
        queue.submit(job(tmp_path), variables={"MOORING_RANK": "1"})
    with pytest.raises(TypeError):
        queue.submit(7)  # type: ignore[arg-type]
    assert queue.runs() == []


def test_a_run_that_is_not_of_the_queue_is_seen_too(service: Service, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    ended = mooring.run(job(tmp_path))
    [run] = mooring.connect().runs()
    assert run.id == ended.directory.name
    assert run.wait(30).report == ended.report
    assert mooring.connect().run(run.id).status().phase == "Succeeded"
    with pytest.raises(mooring.BadInput, match="did not come from the queue"):
        run.stop()
    with pytest.raises(mooring.BadInput, match="or a role"):
        list(run.logs("nobody"))


def test_awaited(service: Service, tmp_path: Path) -> None:
    async def work() -> None:
        queue = mooring.connect_async()
        run = await queue.submit(job(tmp_path))
        steps = []
        async for step in run.steps("worker-0"):
            steps.append(step.step)
            if step.step == 2:
                (tmp_path / "go").touch()
        assert steps == [1, 2, 3]
        result = await run.wait()
        assert result.succeeded
        assert [line.text async for line in run.logs("worker-0", last=1)] == ["nothing"]
        assert await run.report() == result.report
        assert (await run.progress()).ended
        assert (await run.doctor()).checked
        [listed] = await queue.runs()
        assert listed.id == run.id == (await queue.run(run.id)).id
        assert (await run.status()).ended
        other = await queue.submit(job(tmp_path, roles={"worker": {"replicas": 1}}))
        (tmp_path / "go").unlink()
        await other.stop(now=True)
        assert (await other.wait()).phase in ("Stopped", "Succeeded")

    asyncio.run(work())


def test_without_a_service_that_is_said(tmp_path: Path) -> None:
    for connect in (mooring.connect, mooring.connect_async):
        with pytest.raises(mooring.NoService, match="moor serve"):
            connect(tmp_path)


def test_a_program_that_connects_does_not_import_a_server() -> None:
    names = "mooring.connect; mooring.connect_async"
    program = f"import sys, mooring; {names}; print('aiohttp' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout == "False\n"
