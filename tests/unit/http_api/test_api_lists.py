"""Lists under /api/v1: pages that follow each other, filters, chosen fields, refused questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import made_run

from mooring.model.errors import BadInput
from support.served import Served, new_job, served

POOLS = """
apiVersion: mooring.dev/v1
kind: Pools
pools:
  - {name: ads, guaranteed: {cpu: 1}}
  - {name: search, cap: {cpu: 1}, weight: 2}
"""


def pages(api: Served, path: str, listed: str, limit: int) -> list[list[dict[str, Any]]]:
    """All pages of a list."""
    found, after = [], ""
    while True:
        mark = "&" if "?" in path else "?"
        answer = api.client.get(f"{path}{mark}limit={limit}{after}")
        found.append(answer[listed])
        if answer["next"] is None:
            return found
        after = f"&next={answer['next']}"


def test_jobs_in_pages_are_all_jobs_once_latest_first(api: Served) -> None:
    ids = [api.submit(f"job{number}") for number in range(5)]
    for stopped in (ids[0], ids[3]):
        api.client.post(f"/jobs/{stopped}/stop", {})
    for limit in (1, 2, 5, 6):
        some = pages(api, "/jobs", "jobs", limit)
        assert [line["id"] for page in some for line in page] == ids[::-1]
        assert all(len(page) <= limit for page in some)


def test_jobs_are_chosen_by_what_they_are(api: Served) -> None:
    first, second, third = api.submit("a"), api.submit("b"), api.submit("a")
    api.client.post(f"/jobs/{first}/stop", {})

    def ids(query: str) -> list[str]:
        return [line["id"] for line in api.client.get(f"/jobs?{query}")["jobs"]]

    assert ids("name=a") == [third, first]
    assert ids("name=a&unfinished=true") == [third]
    assert ids("state=queued") == [third, second]
    assert ids("state=ended") == [first]
    assert ids("phase=Stopped") == [first]
    assert ids("pool=default") == [third, second, first]
    assert ids("pool=other") == []
    assert ids(f"id={first}") == [first]
    assert ids("run=none") == []


def test_the_queue_in_pages_is_in_the_order_of_turns(api: Served) -> None:
    last, first, second = api.submit("a", priority="low"), api.submit("b"), api.submit("c")
    for limit in (1, 2, 3):
        some = pages(api, "/queue", "jobs", limit)
        assert [line["id"] for page in some for line in page] == [first, second, last]
    assert api.client.get("/queue?name=c&fields=id,ahead")["jobs"] == [
        {"id": second, "ahead": [first]}
    ]


def test_only_the_chosen_fields_are_told(api: Served) -> None:
    job = api.submit("a")
    assert api.client.get("/jobs?fields=id,state")["jobs"] == [{"id": job, "state": "queued"}]


@pytest.mark.parametrize(
    ("path", "field", "accepted"),
    [
        ("/jobs?limit=0", "limit", "greater than or equal to 1"),
        ("/jobs?limit=1001", "limit", "less than or equal to 1000"),
        ("/jobs?limit=x", "limit", "valid integer"),
        ("/jobs?next=x", "next", "`next` of the answer before"),
        ("/jobs?fields=id,secret", "fields", "some of id, name"),
        ("/jobs?state=gone", "state", "'queued'"),
        ("/jobs?colour=red", "colour", "not permitted"),
        ("/jobs?limit=1&limit=2", "query", "each name once"),
        ("/jobs?name=%00", "name", "UTF-8 text"),
        ("/runs?next=x", "next", "`next` of the answer before"),
        ("/nodes?next=-1", "next", "`next` of the answer before"),
        ("/service?x=1", "x", "not permitted"),
    ],
)
def test_a_wrong_question_is_told_its_field(
    api: Served, path: str, field: str, accepted: str
) -> None:
    with pytest.raises(BadInput) as refused:
        api.client.get(path)
    [problem] = refused.value.problems
    assert problem.path == field
    assert accepted in problem.accepted


def test_runs_in_pages_are_all_runs_once_latest_first(api: Served) -> None:
    runs = [made_run("a", 100.0 + number // 2) for number in range(5)]
    expected = sorted(runs, key=lambda run: (run.info.created_s, run.info.id), reverse=True)
    for limit in (1, 2, 5):
        some = pages(api, "/runs", "runs", limit)
        assert [line["run"] for page in some for line in page] == [r.info.id for r in expected]


def test_runs_are_chosen_by_what_they_are(api: Served) -> None:
    good, bad = made_run("a", 1.0), made_run("b", 2.0, phase="Failed")
    lost = made_run("b", 3.0, phase="Running")

    def ids(query: str) -> list[str]:
        return [line["run"] for line in api.client.get(f"/runs?{query}")["runs"]]

    assert ids("job=a") == [good.info.id]
    assert ids("phase=Failed") == [bad.info.id]
    assert ids("unfinished=true") == [lost.info.id]
    assert ids("queue_job=none") == []
    assert api.client.get("/runs?fields=run&limit=1")["runs"] == [{"run": lost.info.id}]


def test_nodes_and_pools_say_what_there_is_and_what_is_held(home: Path) -> None:
    with served(home, POOLS) as api:
        api.submit("a", pool="ads")
        [node] = api.client.get("/nodes")["nodes"]
        assert node["capacity"]["cpu_millis"] > 0
        assert node["held"]["cpu_millis"] == 0
        assert node["jobs"] == []
        ads, search = api.client.get("/pools")["pools"]
        assert (ads["name"], ads["guaranteed"]["cpu_millis"], ads["cap"]) == ("ads", 1000, None)
        assert (ads["waiting"], ads["running"], ads["held"]["cpu_millis"]) == (1, 0, 0)
        assert (search["cap"]["cpu_millis"], search["weight"]) == (1000, 2)
        assert api.client.get("/pools?fields=name&limit=1") == {
            "pools": [{"name": "ads"}],
            "next": "1",
        }


def test_a_machine_without_pools_has_one(api: Served) -> None:
    api.submit("a")
    [pool] = api.client.get("/pools")["pools"]
    assert (pool["name"], pool["waiting"], pool["cap"]) == ("default", 1, None)


def test_a_plan_is_made_without_starting_anything(api: Served) -> None:
    job = new_job(api.home, "a")["job"]
    plan = api.client.post("/plans", {"job": job})
    assert plan["refused"] is None
    assert [member["member"] for member in plan["members"]] == ["worker-0"]
    job["spec"]["roles"]["worker"]["resources"]["cpu"] = 100_000
    refused = api.client.post("/plans", {"job": job})
    assert refused["members"] == []
    assert "cpu" in refused["refused"]
    assert refused["nodes"][0]["refused"]
    assert api.client.get("/jobs")["jobs"] == []
