"""Streams of events: from a place on, without a gap or a repetition, bounded, with heart-beats."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from made_runs import made_run, write_lines

from mooring.backends.local.queue.service import QueueService
from mooring.backends.local.queue.store import NewEvent
from mooring.http_api import streams
from mooring.model.errors import BadInput
from mooring.record import RunRecord
from support.served import Served, served
from support.sse import ServerEvent, events_at
from support.waiting import until


def socket_of(api: Served) -> Path:
    return api.client.home.socket


def tell(api: Served, *kinds: str) -> None:
    api.do(lambda service: service.roster.tell(*(NewEvent(kind, "a-1") for kind in kinds)))


def open_streams(api: Served) -> int:
    """As the service's roster knows them."""
    return api.do(lambda service: len(service.roster._news))


def test_the_queues_events_come_as_they_happen(api: Served) -> None:
    tell(api, "before")
    with events_at(socket_of(api), "/queue/events") as events:
        job = api.submit("a")
        api.client.post(f"/jobs/{job}/stop", {})
        first, second, third = islice(events, 3)
    assert (first.name, first.data["job"], first.data["fields"]) == (
        "submitted",
        job,
        {"name": "a"},
    )
    assert (second.name, third.name) == ("stopping", "ended")
    assert int(second.id) > int(first.id) > 1


def test_a_client_that_comes_back_misses_nothing_and_sees_nothing_twice(api: Served) -> None:
    tell(api, *(f"kind-{letter}" for letter in "abcdef"))
    seen: list[str] = []
    place = "0"
    while len(seen) < 6:
        with events_at(socket_of(api), "/queue/events", {"Last-Event-ID": place}) as events:
            for event in islice(events, 2):
                seen.append(event.name)
                place = event.id
    assert seen == [f"kind-{letter}" for letter in "abcdef"]


def test_events_of_one_job(api: Served) -> None:
    first, second = api.submit("a"), api.submit("b")
    with events_at(socket_of(api), f"/queue/events?after=0&job={second}") as events:
        assert next(events).data["job"] == second
    assert first != second


def test_a_place_that_is_not_kept_any_more_is_a_gap(api: Served) -> None:
    tell(api, "one", "two")
    with events_at(socket_of(api), "/queue/events", {"Last-Event-ID": "1000"}) as events:
        gap, one, two = islice(events, 3)
    assert (gap.name, gap.id, one.name, two.name) == ("gap", "", "one", "two")


@pytest.mark.parametrize("place", ["x", "-1", "1 2", "9" * 30])
def test_a_place_that_is_none_is_refused(api: Served, place: str) -> None:
    with (
        pytest.raises(AssertionError, match="Last-Event-ID"),
        events_at(socket_of(api), "/queue/events", {"Last-Event-ID": place}),
    ):
        pass


def test_a_run_is_told_from_its_beginning_to_its_end(api: Served) -> None:
    run = ended(made_run("a", 100.0))
    with events_at(socket_of(api), f"/runs/{run.info.id}/events") as events:
        told = list(events)
    assert [event.name for event in told] == ["phase", "phase", "progress", "end"]
    assert told[1].data["fields"]["phase"] == "Succeeded"
    assert told[2].data["steps"] == 10
    with events_at(
        socket_of(api), f"/runs/{run.info.id}/events?progress=false", {"Last-Event-ID": told[0].id}
    ) as events:
        assert list(events) == [told[1], told[3]]


def test_a_run_that_goes_on_is_followed(api: Served) -> None:
    run = made_run("a", 100.0, phase="Running")
    with events_at(socket_of(api), f"/runs/{run.info.id}/events?progress=false") as events:
        list(islice(events, 2))
        write_lines(run.events_file, {"t": 1.0, "kind": "note", "says": "half"})
        assert next(events).data["fields"]["says"] == "half"
        write_lines(run.sample_file("worker-0"), {"t": 200.0, "kind": "step", "step": 15})
        ended(run)
        assert [event.name for event in events] == ["end"]


def test_an_event_is_one_line_whatever_stands_in_it(api: Served) -> None:
    run = made_run("a", 100.0)
    evil = "x\nid: 7\nevent: end\n\n"
    write_lines(run.events_file, {"t": 1.0, "kind": evil, "text": evil})
    ended(run)
    with events_at(socket_of(api), f"/runs/{run.info.id}/events?progress=false") as events:
        told: list[ServerEvent] = list(events)
    assert [event.name for event in told] == ["phase", "phase", "other", "end"]
    assert told[2].data["fields"]["text"] == evil


def ended(run: RunRecord) -> RunRecord:
    run.released_file.touch()
    return run


def test_there_are_only_so_many_streams(api: Served) -> None:
    path = socket_of(api)
    limit = streams.Streams().most
    opened = [events_at(path, "/queue/events") for _ in range(limit)]
    for each in opened:
        each.__enter__()
    until(lambda: open_streams(api) == limit, "all are open")
    with (
        pytest.raises(AssertionError, match="as many as there may be"),
        events_at(path, "/queue/events"),
    ):
        pass
    assert api.client.get("/service")["queued"] == 0
    opened.pop().__exit__(None, None, None)
    tell(api, "one")

    def comes_in() -> bool:
        try:
            with events_at(path, "/queue/events?after=0") as events:
                return next(events).name == "one"
        except AssertionError:
            tell(api, "again")
            return False

    until(comes_in, "a place is free again")
    for each in opened:
        each.__exit__(None, None, None)


def test_a_quiet_stream_has_heart_beats(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_BEAT_S", 0.05)
    with events_at(socket_of(api), "/queue/events") as events:
        assert [event.comment for event in islice(events, 3)] == [": beat"] * 3


def test_a_client_that_reads_nothing_holds_nobody_up_and_loses_its_stream(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_PATIENCE_S", 0.5)
    with events_at(socket_of(api), "/queue/events"):
        until(lambda: open_streams(api) == 1, "the stream is open")

        def flood(service: QueueService) -> None:
            large = {"text": "x" * 100_000}
            service.roster.tell(*(NewEvent("large", "a-1", large) for _ in range(100)))

        api.do(flood)
        assert api.client.get("/service")["queued"] == 0
        until(lambda: open_streams(api) == 0, "it has lost its stream")


def test_streams_end_with_the_service(home: Path) -> None:
    with served(home) as api:
        stream = events_at(socket_of(api), "/queue/events")
        events = stream.__enter__()
        until(lambda: open_streams(api) == 1, "the stream is open")
    assert list(events) == []
    stream.__exit__(None, None, None)


def test_a_wrong_place_in_the_address_is_refused(api: Served) -> None:
    with pytest.raises(BadInput, match="after"):
        api.client.get("/queue/events?after=-1")
