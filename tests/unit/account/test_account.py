"""Looks to an account: what each look was, that it adds up, and who is waited for."""

from __future__ import annotations

from contextlib import suppress

import pytest

from mooring.account import Account, Activity, RankAccount, words
from mooring.account.looks import Look, Place, RankLooks, SampledFrame, Spot, ThreadTime, read_looks
from mooring.account.summing import account_of
from mooring.account.weighing import MemberSeen
from mooring.stacks import Category
from mooring.wire import UnreadableRecord, read_record
from mooring.wire.looks import Looks

OWN = SampledFrame("train.py", "q", 7)
MAIN = SampledFrame("train.py", "<module>", 20)
TORCH = SampledFrame("~torch/nn/functional.py", "linear", 0)
REDUCE = SampledFrame("~torch/distributed/distributed_c10d.py", "all_reduce", 0)
WAIT = SampledFrame("~python/threading.py", "Condition.wait", 0)
MPI = SampledFrame("sum.py", "g", 9, ("Allreduce",))

OWN_RUNS = Place(Spot("R", stack=(OWN, MAIN)))
TORCH_RUNS = Place(Spot("R", stack=(TORCH, OWN, MAIN)))
SLEEPS = Place(Spot("S", "sleep", stack=(OWN, MAIN)))
READS = Place(Spot("D", "read", ("file:ext4",), (OWN, MAIN)))
SPINS = Place(Spot("R", stack=(MPI, MAIN)))
MEETS = Place(Spot("S", "futex", stack=(REDUCE, MAIN)), members=("worker-1",))
AT_SERVER = Place(Spot("S", "recv", ("peer:ps-0",), (OWN, MAIN)))
ON_LOCK = Place(Spot("S", "futex", stack=(MAIN,)))
BY_THREADS = Place(
    Spot("S", "futex", stack=(TORCH, MAIN)), by="native", helper=Spot("R"), running=2
)
BY_LOADER = Place(
    Spot("S", "poll", ("pipe",), (MAIN,)), by="process", helper=Spot("R", stack=(OWN,)), running=1
)
BY_THREAD = Place(
    Spot("S", "futex", stack=(WAIT, MAIN)), by="thread", helper=Spot("R", stack=(OWN,)), running=1
)
BY_PRODUCER = Place(
    Spot("S", "futex", stack=(WAIT, SampledFrame("~python/queue.py", "Queue.get", 0), MAIN)),
    by="thread",
    helper=Spot("S", "sleep", stack=(OWN,)),
)
BESIDE_WATCHDOG = Place(
    Spot("S", "futex", stack=(TORCH, MAIN)),
    by="thread",
    helper=Spot("S", "sleep", stack=(OWN,)),
    members=("worker-1",),
)
IDLE = Place(Spot("S", "futex"), members=("worker-0",))

NO_CLOCK = ThreadTime()


def looks(
    *places: tuple[Place | None, int],
    clock: ThreadTime = NO_CLOCK,
    card: str = "eth0",
    rates: tuple[float, float] = (0.0, 0.0),
    queued: float = 0.0,
) -> RankLooks:
    found: list[Look] = []
    for place, count in places:
        found += [Look(0.0, place, *rates, queued)] * count
    placed = [Look(0.1 * n, one.place, *rates, queued) for n, one in enumerate(found)]
    return RankLooks(0, 42, tuple(placed), clock, card, {"worker-1": 100}, python_threads=1)


def member(
    name: str, seen: RankLooks, serves: bool = False, step_s: float | None = 0.1, **more: object
) -> MemberSeen:
    role = name.rpartition("-")[0]
    return MemberSeen(name, role, "n", [seen], serves, step_s=step_s, **more)  # type: ignore[arg-type]


def alone(*places: tuple[Place | None, int], **more: object) -> RankAccount:
    account = account_of([member("worker-0", looks(*places, **more))])  # type: ignore[arg-type]
    return account.ranks[0]


@pytest.mark.parametrize(
    ("place", "activity"),
    [
        (OWN_RUNS, Activity.OWN),
        (TORCH_RUNS, Activity.FRAMEWORK),
        (SLEEPS, Activity.SLEEP),
        (READS, Activity.DISK),
        (SPINS, Activity.OTHERS),
        (MEETS, Activity.OTHERS),
        (AT_SERVER, Activity.OTHERS),
        (BY_THREADS, Activity.FRAMEWORK),
        (BY_LOADER, Activity.INPUT),
        (BY_THREAD, Activity.OWN),
        (BY_PRODUCER, Activity.INPUT),
        (BESIDE_WATCHDOG, Activity.OTHERS),
        (None, Activity.UNSEEN),
    ],
)
def test_each_kind_of_look(place: Place | None, activity: Activity) -> None:
    rank = alone((place, 50))
    assert rank.parts == {activity: pytest.approx(1.0)}


def test_a_lock_without_anybody_is_not_explained_and_says_what_would_show_it() -> None:
    seen = RankLooks(0, 42, looks((ON_LOCK, 50)).looks, python_threads=1)
    rank = account_of([member("worker-0", seen)]).ranks[0]
    assert rank.parts == {Activity.UNSEEN: pytest.approx(1.0)}
    assert not rank.adds_up
    assert "py-spy dump --native --pid 42" in rank.note


def test_parts_add_up_to_the_step() -> None:
    rank = alone((OWN_RUNS, 30), (TORCH_RUNS, 20), (SLEEPS, 10), (MEETS, 40))
    assert sum(rank.parts.values()) == pytest.approx(1.0)
    assert rank.share(Activity.SLEEP) == pytest.approx(0.1)
    assert rank.adds_up


def test_the_clock_of_the_thread_corrects_looks_that_fell_when_it_slept() -> None:
    """Looks say 20 % running; the clock says 40 % wanted, half of it without a CPU."""
    rank = alone((OWN_RUNS, 20), (SLEEPS, 80), clock=ThreadTime(10.0, 2.0, 2.0))
    assert rank.share(Activity.OWN) == pytest.approx(0.2)
    assert rank.share(Activity.CPU_WAIT) == pytest.approx(0.2)
    assert rank.share(Activity.SLEEP) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("place", "clock", "unseen"),
    [
        # All looks saw it run; its clock says that it wanted a CPU for 6 s of 10.
        (OWN_RUNS, ThreadTime(10.0, 6.0, 0.0, 0.0, 6.0), 0.4),
        # No look did, and it ran for 2: it computed.
        (SLEEPS, ThreadTime(10.0, 2.0, 0.0, 0.0, 2.0), 0.0),
        (SLEEPS, ThreadTime(10.0, 0.1, 0.1, 0.0, 0.1), 0.0),
    ],
)
def test_time_that_no_look_fell_into_is_not_explained(
    place: Place, clock: ThreadTime, unseen: float
) -> None:
    rank = alone((place, 50), clock=clock)
    assert rank.share(Activity.UNSEEN) == pytest.approx(unseen)
    assert sum(rank.parts.values()) == pytest.approx(1.0)


def test_threads_that_used_no_cpu_time_did_not_run() -> None:
    """Looks always see one run (it wakes with the launcher); it used 1 s of 10."""
    meets = Place(
        Spot("S", "futex", stack=(TORCH, MAIN)), "native", Spot("R"), 1, members=("worker-1",)
    )
    rank = alone((meets, 100), clock=ThreadTime(10.0, 0.001, 0.0, 0.0, 1.001))
    assert rank.share(Activity.FRAMEWORK) == pytest.approx(0.1, abs=0.01)
    assert rank.share(Activity.OTHERS) == pytest.approx(0.9, abs=0.01)


def test_lines_are_named_with_their_share_and_what_they_do() -> None:
    other = Place(Spot("R", stack=(SampledFrame("train.py", "z", 30), MAIN)))
    rank = alone((SLEEPS, 60), (other, 40))
    assert [(one.place, round(one.share, 2)) for one in rank.lines] == [
        ("train.py:7 q()", 0.6),
        ("train.py:30 z()", 0.4),
    ]
    assert rank.lines[0].by == {Activity.SLEEP: pytest.approx(0.6)}


def test_a_line_of_a_loader_is_said_to_be_in_a_process() -> None:
    rank = alone((BY_LOADER, 50))
    assert (rank.lines[0].place, rank.lines[0].thread) == ("train.py:7 q()", "process")


def test_the_others_wait_for_the_rank_that_sleeps() -> None:
    account = account_of(
        [
            member("worker-0", looks((MEETS, 80), (TORCH_RUNS, 20))),
            member("worker-1", looks((SLEEPS, 80), (TORCH_RUNS, 20))),
        ]
    )
    [wait] = account.ranks[0].waits
    assert (wait.member, wait.doing) == ("worker-1", Activity.SLEEP)
    assert wait.line is not None
    assert wait.line.place == "train.py:7 q()"
    assert account.slowest is not None
    assert account.slowest.member == "worker-1"


def test_ranks_that_wait_alike_wait_for_nobody_in_particular() -> None:
    meets = Place(Spot("S", "futex", stack=(REDUCE, MAIN)))
    account = account_of(
        [member(f"worker-{n}", looks((meets, 50), (TORCH_RUNS, 50))) for n in range(3)]
    )
    assert [one.member for one in account.ranks[0].waits] == [""]


def test_a_worker_waits_for_the_server_at_its_socket() -> None:
    account = account_of(
        [
            member("worker-0", looks((AT_SERVER, 90), (OWN_RUNS, 10))),
            member("ps-0", looks((OWN_RUNS, 100)), serves=True),
        ]
    )
    [wait] = account.ranks[0].waits
    assert (wait.member, wait.doing) == ("ps-0", Activity.OWN)


def test_a_chief_waits_for_its_workers_not_for_their_server() -> None:
    waits = Place(Spot("S", "futex", stack=(MAIN,)), members=("ps-0",))
    account = account_of(
        [
            member("chief-0", looks((waits, 100)), leads=True),
            member("worker-0", looks((OWN_RUNS, 90), (AT_SERVER, 10))),
            member("ps-0", looks((IDLE, 80), (OWN_RUNS, 20)), serves=True),
        ]
    )
    [wait] = account.ranks[0].waits
    assert (wait.member, wait.doing) == ("worker-0", Activity.OWN)


def test_waiting_with_a_full_card_is_network() -> None:
    """20 Mbit/s are 2,500 kB/s."""
    seen = looks((MEETS, 60), (TORCH_RUNS, 40), rates=(0.0, 2400.0))
    rank = account_of([member("worker-0", seen, limit_mbps=20.0)]).ranks[0]
    assert rank.share(Activity.NETWORK) == pytest.approx(0.6)
    assert rank.network is not None
    assert rank.network.sent_mbps == pytest.approx(19.2)
    assert rank.network.full == 1.0


def test_an_idle_card_is_not_the_network() -> None:
    seen = looks((MEETS, 60), (TORCH_RUNS, 40), rates=(100.0, 100.0))
    rank = account_of([member("worker-0", seen, limit_mbps=20.0)]).ranks[0]
    assert rank.share(Activity.NETWORK) == 0.0
    assert rank.network is None


@pytest.mark.parametrize(("most", "network"), [(800.0, False), (90000.0, True)])
def test_of_a_card_without_a_limit_the_fullest_moment_is_the_measure(
    most: float, network: bool
) -> None:
    rank = alone((MEETS, 60), rates=(0.0, most))
    assert (rank.share(Activity.NETWORK) > 0) is network


def test_loopback_is_no_network() -> None:
    rank = alone((MEETS, 60), rates=(90000.0, 90000.0), card="lo")
    assert rank.share(Activity.OTHERS) == pytest.approx(1.0)


def test_a_queue_that_nobody_takes_is_the_other_one_not_the_network() -> None:
    seen = looks((MEETS, 60), rates=(0.0, 0.0), queued=500.0)
    rank = account_of([member("worker-0", seen, limit_mbps=20.0)]).ranks[0]
    assert rank.share(Activity.OTHERS) == pytest.approx(1.0)


def test_waiting_while_the_server_has_a_full_card_is_the_server_s_card() -> None:
    account = account_of(
        [
            member("worker-0", looks((AT_SERVER, 60)), limit_mbps=1000.0),
            member("ps-0", looks((IDLE, 60), rates=(2400.0, 0.0)), serves=True, limit_mbps=20.0),
        ]
    )
    rank = account.ranks[0]
    assert rank.share(Activity.NETWORK) == pytest.approx(1.0)
    assert rank.network is not None
    assert rank.network.of == "ps-0"


def test_spinning_counts_as_waiting_and_is_told() -> None:
    rank = alone((SPINS, 50), (OWN_RUNS, 50))
    assert rank.spins == pytest.approx(0.5)
    assert rank.share(Activity.OTHERS) == pytest.approx(0.5)


RECEIVES = Place(Spot("R", stack=(SampledFrame("m.py", "w", 36, ("c.recv",)), MAIN)))


def test_a_call_of_mpi_is_known_only_where_mpi_is_loaded() -> None:
    spins = RankLooks(0, 42, looks((RECEIVES, 50)).looks, has_mpi=True)
    rank = account_of([member("worker-0", spins)]).ranks[0]
    assert rank.share(Activity.OTHERS) == pytest.approx(1.0)
    assert alone((RECEIVES, 50)).share(Activity.OWN) == pytest.approx(1.0)


def test_output_that_nobody_takes_is_disk_or_output() -> None:
    logs = SampledFrame("~python/logging/__init__.py", "StreamHandler.emit", 0)
    rank = alone((Place(Spot("S", "write", ("pipe",), (logs, MAIN))), 50))
    assert rank.parts == {Activity.DISK: pytest.approx(1.0)}
    assert rank.phases == {Category.LOGGING: pytest.approx(1.0)}


def test_imports_are_no_part_of_a_step() -> None:
    record = {
        **RECORD,
        "calls": [["~<frozen importlib._bootstrap>", "_load", 0, []], ["a.py", "f", 3, []]],
        "places": [{"main": ["R", "", [], [0, 1]]}, {"main": ["R", "", [], [1]]}],
    }
    [rank] = read_looks([looks_record(record)], (float("-inf"), float("inf")))
    assert [one.at_s for one in rank.looks] == [10.1, 10.2]
    assert rank.clock == ThreadTime()


def test_who_is_short_of_a_cpu_is_said_to_do_what_it_is_delayed_in() -> None:
    slow = looks((OWN_RUNS, 100), clock=ThreadTime(10.0, 2.0, 7.9, 0.0, 2.0))
    account = account_of([member("worker-0", looks((MEETS, 100))), member("worker-1", slow)])
    assert account.ranks[1].share(Activity.CPU_WAIT) > 0.7
    assert account.ranks[0].waits[0].doing is Activity.OWN


def test_phases_lie_across_the_activities() -> None:
    saves = SampledFrame("train.py", "save_checkpoint", 50)
    rank = alone((Place(Spot("D", "fsync", ("file:nfs4",), (saves, MAIN))), 50), (OWN_RUNS, 50))
    assert rank.phases == {Category.CHECKPOINT: pytest.approx(0.5)}
    assert rank.file_systems == {"nfs4": pytest.approx(0.5)}
    assert rank.share(Activity.DISK) == pytest.approx(0.5)


def test_few_looks_are_no_account() -> None:
    assert "too few looks" in account_of([member("worker-0", looks((OWN_RUNS, 5)))]).note
    assert "nobody looked" in account_of([MemberSeen("worker-0", "worker", "n", [])]).note


RECORD: dict[str, object] = {
    "kind": "looks", "t": 15.0, "epoch": 0, "attempt": 0, "pid": 9, "r": 0, "from": 10.0,
    "span_s": 5.0, "looks": [[0, 0, 1, 2, 3], [100, 1, 0, 0, 0], [200, -1, 0, 0, 0]],
    "places": [
        {"main": ["R", "", [], [0]]},
        {"main": ["S", "poll", ["pipe"], [0]], "by": "process", "helper": ["S", "sleep", [], [0]]},
    ],
    "calls": [["a.py", "f", 3, ["g"]]], "main": [1.0, 0.5, 0.0, 2.0], "card": "eth0",
    "tcp": {"worker-1": {"sent": 5, "received": 6}}, "python_threads": 2, "helpers": 1,
    "machine": {"span_s": 5.0, "busy_s": 6.0, "cpus": 2, "cpu_pressure_s": 1.0},
}  # fmt: skip


def looks_record(document: dict[str, object]) -> Looks:
    record = read_record(document)
    assert isinstance(record, Looks)
    return record


def test_records_are_read() -> None:
    [rank] = read_looks([looks_record(RECORD)], (0.0, 99.0))
    assert [one.at_s for one in rank.looks] == [10.0, 10.1, 10.2]
    assert rank.looks[0].place == Place(Spot("R", stack=(SampledFrame("a.py", "f", 3, ("g",)),)))
    assert rank.looks[1].place is not None
    assert rank.looks[1].place.helper == Spot(
        "S", "sleep", (), (SampledFrame("a.py", "f", 3, ("g",)),)
    )
    assert rank.looks[2].place is None
    assert rank.clock == ThreadTime(5.0, 1.0, 0.5, 0.0, 2.0)
    assert rank.moved == {"worker-1": 11}
    assert rank.machine.busy_s == 6.0


@pytest.mark.parametrize("key", sorted(RECORD))
@pytest.mark.parametrize("junk", [None, 3, "x", [1], [[]], {"a": None}, [None, {"main": 3}]])
def test_records_of_another_version_do_not_break_reading(key: str, junk: object) -> None:
    with suppress(UnreadableRecord):
        record = read_record({**RECORD, key: junk})
        for rank in read_looks([record] if isinstance(record, Looks) else [], (0.0, 99.0)):
            account_of([member("worker-0", rank)])


def test_text_fits_80_columns_and_begins_with_the_step() -> None:
    account = account_of(
        [
            member("worker-0", looks((MEETS, 80), (TORCH_RUNS, 20))),
            member("worker-1", looks((SLEEPS, 80), (TORCH_RUNS, 20))),
        ]
    )
    text = list(words.lines(account))
    assert max(map(len, text)) <= 80
    assert text[0].startswith("Where a step's time goes")
    assert any("sleeping" in line and "80 ms" in line for line in text)
    joined = " ".join(" ".join(text).split())
    assert "worker-0: waits 80 ms for worker-1, which sleeps at train.py:7 q()" in joined


def test_no_looks_say_why() -> None:
    assert list(words.lines(Account(note="nobody looked"))) == [
        "No account of a step: nobody looked."
    ]
    assert list(words.lines(Account())) == []
