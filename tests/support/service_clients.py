"""Many clients of one service at once: all are answered, and what they were told is true."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mooring.backends.local.queue.client import ServiceClient
from mooring.spec import load_job
from support.service import Service


def ask_at_once(service: Service, path: Path, clients: int, operations: int) -> None:
    """Each submits, asks and stops in turn; what was submitted is known and ends as it was told."""
    job = load_job(path, ()).to_dict()
    document = {"job": job, "folder": str(path.parent), "source": str(path)}

    def client(number: int) -> list[tuple[str, bool]]:
        asked, mine = ServiceClient(service.home), []
        for turn in range(operations):
            kind = (turn + number) % 5
            if kind == 0 or not mine:
                mine.append((str(asked.post("/jobs", document)["id"]), False))
            elif kind == 1:
                assert len(asked.get("/queue")["jobs"]) <= clients * operations
            elif kind == 2:
                assert asked.get(f"/jobs/{mine[-1][0]}")["id"] == mine[-1][0]
            elif kind == 3:
                assert asked.get(f"/jobs?id={mine[-1][0]}")["jobs"] is not None
            else:
                job_id, _ = mine.pop()
                asked.post(f"/jobs/{job_id}/stop", {"now": True})
                mine.insert(0, (job_id, True))
        return mine

    with ThreadPoolExecutor(clients) as pool:
        answers = [each for mine in pool.map(client, range(clients)) for each in mine]
    ids = [job_id for job_id, _ in answers]
    assert len(set(ids)) == len(ids)
    for job_id, stopped in answers:
        if stopped:
            assert service.until_ended(job_id)["phase"] == "Stopped"
    unfinished = {job["id"] for job in service.client.get("/jobs?unfinished=true")["jobs"]}
    assert unfinished == {job_id for job_id, stopped in answers if not stopped}
