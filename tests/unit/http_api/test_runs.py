"""One run under /api/v1: what its files say, in parts that are bounded."""

from __future__ import annotations

from typing import Any

import pytest
from made_runs import made_run, write_lines

from mooring.backends.local.queue.client import NotFound
from mooring.model.errors import BadInput
from mooring.record import RunRecord
from support.served import Served


@pytest.fixture
def run(api: Served) -> RunRecord:
    return made_run("a", 100.0, members=3)


def texts(part: dict[str, Any]) -> list[str]:
    return [line["text"] for line in part["lines"]]


def test_a_run_tells_how_far_it_is(api: Served, run: RunRecord) -> None:
    told = api.client.get(f"/runs/{run.info.id}")
    assert (told["run"]["phase"], told["run"]["job"], told["run"]["members"]) == (
        "Succeeded",
        "a",
        3,
    )
    assert (told["progress"]["steps"], told["progress"]["total_steps"]) == (10, 20)
    assert [(one["member"], one["cpus"]) for one in told["members"]] == [
        (f"worker-{index}", "0-1") for index in range(3)
    ]


def test_a_plan_comes_in_pages(api: Served, run: RunRecord) -> None:
    first = api.client.get(f"/runs/{run.info.id}/plan?limit=2&fields=member,node")
    assert first["members"] == [{"member": f"worker-{i}", "node": "here"} for i in range(2)]
    rest = api.client.get(f"/runs/{run.info.id}/plan?limit=2&next={first['next']}")
    assert [one["member"] for one in rest["members"]] == ["worker-2"]
    assert rest["next"] is None


def test_a_member_is_explained(api: Served, run: RunRecord) -> None:
    told = api.client.get(f"/runs/{run.info.id}/explanation?member=worker-1")
    assert (told["member"], told["nodes"][0]["node"]) == ("worker-1", "here")
    with pytest.raises(BadInput, match="one of worker-0"):
        api.client.get(f"/runs/{run.info.id}/explanation?member=nobody-0")


def test_a_log_is_read_from_place_to_place(api: Served, run: RunRecord) -> None:
    path = f"/runs/{run.info.id}/logs?member=worker-0"
    seen, place = [], 0
    while True:
        part = api.client.get(f"{path}&offset={place}&limit=7")
        if not part["lines"]:
            break
        assert part["begin"] == place
        seen += texts(part)
        place = part["next"]
    assert seen == [f"line {number}" for number in range(20)]
    assert place == part["size"]
    with run.log_file("worker-0").open("a") as log:
        log.write("2026-01-01T00:01:00Z err 0 more\n2026-01-01T00:01:00Z out 0 half a li")
    part = api.client.get(f"{path}&offset={place}")
    assert part["lines"] == [
        {"at": "2026-01-01T00:01:00Z", "stream": "err", "rank": 0, "text": "more"}
    ]


def test_the_last_lines_of_a_log(api: Served, run: RunRecord) -> None:
    path = f"/runs/{run.info.id}/logs?member=worker-0"
    last = api.client.get(f"{path}&tail=2&fields=text")
    assert last["lines"] == [{"text": "line 18"}, {"text": "line 19"}]
    assert texts(api.client.get(f"{path}&offset={last['begin']}")) == ["line 18", "line 19"]
    assert texts(api.client.get(f"{path}&tail=100")) == [f"line {n}" for n in range(20)]
    assert texts(api.client.get(f"{path}&tail=0")) == []


def test_an_endless_log_comes_in_bounded_parts(api: Served, run: RunRecord) -> None:
    line = "2026-01-01T00:00:00Z out 0 " + "x" * 1000 + "\n"
    log = run.log_file("worker-1")
    log.write_text(line * 3000 + "y" * (3 << 20))
    path = f"/runs/{run.info.id}/logs?member=worker-1"
    part = api.client.get(f"{path}&limit=5000")
    assert 0 < len(part["lines"]) * len(line) <= 1 << 20
    place, pieces = 3000 * len(line), 0
    while place < part["size"]:
        after = api.client.get(f"{path}&offset={place}")["next"]
        if after == place:
            break
        place, pieces = after, pieces + 1
    assert pieces == 3
    assert len(api.client.get(f"{path}&tail=5000")["lines"]) * len(line) <= 1 << 20


def test_samples_by_kind_and_field(api: Served, run: RunRecord) -> None:
    path = f"/runs/{run.info.id}/samples?member=worker-0"
    last = api.client.get(f"{path}&kind=step&tail=2&fields=step,loss")
    assert last["samples"] == [{"step": 9, "loss": 1 / 9}, {"step": 10, "loss": 0.1}]
    write_lines(run.sample_file("worker-0"), {"t": 1.0, "kind": "exit"})
    assert api.client.get(f"{path}&offset={last['next']}")["samples"] == [
        {"t": 1.0, "kind": "exit"}
    ]
    first = api.client.get(f"{path}&limit=3")
    assert [one["kind"] for one in first["samples"]] == ["running", "step", "step"]


def test_a_report_and_findings(api: Served, run: RunRecord) -> None:
    report = api.client.get(f"/runs/{run.info.id}/report")
    assert (report["run"], report["steps"], len(report["members"])) == (run.info.id, 10, 3)
    found = api.client.get(f"/runs/{run.info.id}/findings")
    assert found["of"]
    assert found["checked"]


@pytest.mark.parametrize("name", ["nobody", "..", "a%2Fb", "%00", "%ff", "x" * 300])
@pytest.mark.parametrize("what", ["", "/plan", "/logs?member=worker-0", "/report"])
def test_an_unknown_run_is_told(api: Served, name: str, what: str) -> None:
    with pytest.raises(NotFound):
        api.client.get(f"/runs/{name}{what}")


@pytest.mark.parametrize("member", ["nobody-0", "../../run", "worker-0/../..", "", "%00"])
def test_an_unknown_member_is_told(api: Served, run: RunRecord, member: str) -> None:
    with pytest.raises(BadInput) as refused:
        api.client.get(f"/runs/{run.info.id}/logs?member={member}")
    assert refused.value.problems[0].path == "member"


def test_a_job_that_is_unknown_is_told(api: Served) -> None:
    for path in ("/jobs/none-1", "/jobs/none-1/explanation", "/nothing"):
        with pytest.raises(NotFound):
            api.client.get(path)
