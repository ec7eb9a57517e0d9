"""When the checks of stacks speak, and when they keep silent; the arithmetic beside each case."""

from __future__ import annotations

from typing import Any

import pytest
from building import check_run, member, run, use

from mooring.account.looks import Look, Place, RankLooks, Reads, SampledFrame, Spot, ThreadTime
from mooring.doctor.facts import MemberFacts, ReadFacts, Repeats, StackFacts, Use
from mooring.doctor.findings.often import times_less
from mooring.doctor.findings.trainers import at_least
from mooring.doctor.read_stacks import read_stacks
from mooring.doctor.registry import Unknown
from mooring.stacks.categories import Category

OFTEN = {
    "checkpoint-often": Category.CHECKPOINT,
    "logging-often": Category.LOGGING,
    "evaluation-often": Category.EVALUATION,
}
PLAIN = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: FRAMEWORK
  command: [python]
  roles:
    worker: {replicas: 2, resources: {cpu: 1, memory: 1Gi}}
"""


def stacks(looks: int = 100, **shares: float) -> StackFacts:
    """Shares by category; the rest computes."""
    known = {Category(name): share for name, share in shares.items()}
    return StackFacts(looks, {**known, Category.COMPUTE: 1 - sum(shares.values())})


def trainer(stack: StackFacts, used: Use | None = None, **changes: Any) -> MemberFacts:
    return member("worker-0", used, stacks=(stack,), **changes)


def judged(check: str, *members: MemberFacts, framework: str = "pytorch") -> list[Any]:
    return check_run(check, run(*members, job=PLAIN.replace("FRAMEWORK", framework)))


@pytest.mark.parametrize("check", OFTEN)
@pytest.mark.parametrize(
    ("looks", "share", "found"),
    [
        (100, 0.0, False),
        (1000, 0.03, False),
        # 0.3 - 1.64 × sqrt(0.3 × 0.7 / 100) = 0.22
        (100, 0.3, True),
        # 0.12 - 1.64 × sqrt(0.12 × 0.88 / 30) = 0.02: chance, so far
        (30, 0.12, False),
        # 0.12 - 1.64 × sqrt(0.12 × 0.88 / 1000) = 0.103
        (1000, 0.12, True),
    ],
)
def test_shares_that_are_surely_too_much(check: str, looks: int, share: float, found: bool) -> None:
    one = trainer(stacks(looks, **{OFTEN[check].value: share}))
    assert bool(judged(check, one)) is found


def test_how_sure_a_share_is() -> None:
    # sqrt(0.2 × 0.8 / 64) = 0.05
    assert at_least(0.2, 64) == pytest.approx(0.2 - 1.64 * 0.05)


@pytest.mark.parametrize(
    ("share", "times"),
    # 2 % of the time is 0.0204 of the rest. 0.5: 1 / 0.0204; 0.2: 0.25 / 0.0204; all: 99 / 0.0204
    [(0.5, 49), (0.2, 13), (0.02, 2), (1.0, 4851)],
)
def test_how_much_less_often(share: float, times: int) -> None:
    assert times_less(share) == times


def test_what_a_checkpoint_finding_tells() -> None:
    seen = StackFacts(
        100,
        {Category.CHECKPOINT: 0.5, Category.COMPUTE: 0.5},
        {Category.CHECKPOINT: "train (train.py:40)"},
        {Category.CHECKPOINT: Repeats(every_s=2.0, lasts_s=1.0)},
    )
    quiet = member("worker-1", stacks=(stacks(),))
    [found] = judged("checkpoint-often", trainer(seen), quiet)
    assert found.says == "worker-0: 50 % of the time goes into checkpoints: 1.0 s every 2.0 s"
    # 49 × 2 s
    assert "49 times less often costs 2 % (every 2 min or longer)" in found.remedy.does
    assert "EVERY = 49 * every_now" in found.remedy.code
    assert found.remedy.where == "train (train.py:40)"
    assert found.members == ("worker-0",)
    assert found.weight == pytest.approx(0.48)
    # 1 / (0.5 + 0.02)
    assert found.gain.high == pytest.approx(1.923, abs=0.001)


@pytest.mark.parametrize(
    ("check", "code"),
    [
        ("checkpoint-often", "enable_async"),
        ("logging-often", "tf.summary"),
        ("evaluation-often", "validation_freq=49"),
    ],
)
def test_code_for_tensorflow(check: str, code: str) -> None:
    one = trainer(stacks(**{OFTEN[check].value: 0.5}))
    [found] = judged(check, one, framework="tensorflow")
    assert code in found.remedy.code


@pytest.mark.parametrize("check", [*OFTEN, "input-bound"])
def test_reasons_why_it_cannot_be_told(check: str) -> None:
    with pytest.raises(Unknown, match="too few looks"):
        judged(check, member("worker-0"))
    with pytest.raises(Unknown, match="may not read"):
        judged(check, member("worker-0", stacks_note="py-spy may not read the trainers"))
    with pytest.raises(Unknown, match="inside TensorFlow"):
        judged(check, trainer(stacks(serving=1.0)), framework="tensorflow")


def test_input_of_workers_of_parameter_servers_is_out_of_sight() -> None:
    chief = member("chief-0", stacks=(stacks(communication=0.9),))
    with pytest.raises(Unknown, match="the workers read inside TensorFlow"):
        judged("input-bound", chief, trainer(stacks(serving=1.0)))
    assert not judged("checkpoint-often", chief, trainer(stacks(serving=1.0)))


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ({}, False),
        ({"loading": 0.1, "waiting": 0.05}, False),
        ({"communication": 0.8}, False),
        # 0.4 - 1.64 × sqrt(0.4 × 0.6 / 100) = 0.32
        ({"loading": 0.2, "waiting": 0.2}, True),
        ({"waiting": 0.8}, True),
    ],
)
def test_input(shares: dict[str, float], found: bool) -> None:
    answer = judged("input-bound", trainer(stacks(**shares)))
    assert bool(answer) is found
    if answer:
        assert answer[0].weight == pytest.approx(sum(shares.values()))


@pytest.mark.parametrize(
    ("shares", "used", "found"),
    [
        # Waits 0.6 of the time for loaders that want a CPU for 0.35 of it: 0.35 >= 0.5 × 0.6.
        ({"waiting": 0.6}, use(wait_s=3.5), False),
        ({"waiting": 0.6}, use(wait_s=2.5), True),
        # Held back by a quota.
        ({"waiting": 0.6}, use(wait_s=0.0, throttled_s=4.0), False),
        # It loads by itself: a neighbour slows down loading and training alike.
        ({"loading": 0.6}, use(wait_s=5.0), True),
    ],
)
def test_input_that_waits_for_a_cpu(shares: dict[str, float], used: Use, found: bool) -> None:
    assert bool(judged("input-bound", trainer(stacks(**shares), used))) is found


def reading(**changes: float) -> ReadFacts:
    return ReadFacts(**{"asked_bytes_per_s": 50e6, "calls_per_s": 50.0, **changes})


CPUS = {"held_cpus": frozenset(range(4)), "allowed_cpus": frozenset(range(4))}


@pytest.mark.parametrize(
    ("shares", "loaders", "reads", "used", "framework", "says", "code"),
    [
        # Loading takes 0.6 / 0.4 = 1.5 times as long as training.
        ({"loading": 0.6}, 0, reading(), use(), "pytorch", "batch itself", "num_workers=2"),
        # 0.9 / 0.1 = 9; of 4 CPUs, one for the trainer: 3 if loading may use a CPU…
        ({"loading": 0.9}, 0, reading(), use(), "pytorch", "batch itself", "num_workers=3"),
        # …or does: (1.0 - 0.1) / 0.9 = 1 CPU…
        (
            {"loading": 0.9}, 0, reading(main_cpus=1.0), use(), "pytorch",
            "batch itself; loading uses a CPU", "num_workers=3",
        ),
        # …and as many as it takes if it waits: (0.2 - 0.1) / 0.9 = 0.11 CPUs.
        (
            {"loading": 0.9}, 0, reading(main_cpus=0.2), use(), "pytorch",
            "batch itself; loading waits rather than computes", "num_workers=9",
        ),
        # 2 loaders and three quarters of the time waited for: 2 / 0.25.
        (
            {"waiting": 0.75}, 2, reading(loader_cpus=0.1), use(), "pytorch",
            "2 loaders on 4 CPUs; loading waits", "num_workers=8",
        ),
        # 4 MB/s in 1,000 reads: 4 kB each, of pipes: no file was seen open.
        (
            {"loading": 0.6}, 0, reading(asked_bytes_per_s=4e6, calls_per_s=1000.0), use(),
            "pytorch", "batch itself", "num_workers=2",
        ),
        # The same with files.
        (
            {"loading": 0.6},
            0,
            reading(asked_bytes_per_s=4e6, calls_per_s=1000.0, files=40),
            use(),
            "pytorch",
            "the trainer itself makes 1,000 reads a second of 4.0 kB: many small files",
            "num_workers=2",
        ),
        ({"waiting": 0.6}, 1, reading(), use(), "pytorch", "1 loader on 4 CPUs", "num_workers=3"),
        # 38 of 40 CPU seconds.
        (
            {"waiting": 0.6}, 3, reading(), use(cpu_s=38.0), "pytorch",
            "3 loaders use all CPUs", "",
        ),
        (
            {"waiting": 0.6}, 3, reading(), use(), "pytorch",
            "the storage does not keep up", "num_workers=8",
        ),
        ({"waiting": 0.6}, 0, None, use(), "tensorflow", "tf.data", "num_parallel_calls=4"),
    ],
)  # fmt: skip
def test_the_cause_of_waiting(
    shares: dict[str, float],
    loaders: int,
    reads: ReadFacts | None,
    used: Use,
    framework: str,
    says: str,
    code: str,
) -> None:
    plain = stacks(**shares)
    seen = StackFacts(plain.looks, plain.shares, loaders=loaders, reads=reads)
    [found] = judged("input-bound", trainer(seen, used, **CPUS), framework=framework)
    assert says in found.says
    assert code in found.remedy.code


def test_loaders_that_use_all_of_its_own_cpus_need_more() -> None:
    seen = StackFacts(100, {Category.WAITING: 0.5, Category.COMPUTE: 0.5}, loaders=3)
    [found] = judged("input-bound", trainer(seen, use(cpu_s=39.0), exclusive=True, **CPUS))
    # 4 / (1 - 0.5)
    assert [str(one) for one in found.remedy.changes] == ["spec.roles.worker.resources.cpu: 8"]


def test_what_a_step_needs_and_where_files_are() -> None:
    reads = ReadFacts(asked_bytes_per_s=40e6, calls_per_s=40.0, file_systems=("nfs4", "ext4"))
    seen = StackFacts(100, {Category.WAITING: 0.75, Category.COMPUTE: 0.25}, loaders=4, reads=reads)
    [found] = judged("input-bound", trainer(seen, steps_per_s=4.0, **CPUS))
    assert found.says.endswith("; files are on nfs4")
    told = {(figure.what, figure.unit): figure.value for figure in found.evidence}
    assert told["read", "MB a step"] == pytest.approx(10.0)
    # 40 MB/s while it waits three quarters of the time: 40 / 0.25.
    assert told["needed to train all the time", "MB/s"] == pytest.approx(160.0)


_SEEN = {
    "c": SampledFrame("~torch/nn/functional.py", "linear", 0),
    "i": SampledFrame("train.py", "__getitem__", 3),
    "k": SampledFrame("~torch/serialization.py", "save", 0),
}
MAIN = SampledFrame("train.py", "main", 9)


def seen(letters: str, from_s: float = 100.0, hz: float = 10.0, **more: Any) -> RankLooks:
    """A look for each letter."""
    places = {letter: Place(Spot("R", stack=(call, MAIN))) for letter, call in _SEEN.items()}
    looks = [
        Look(from_s + place / hz, places[letter], lasts_s=1 / hz)
        for place, letter in enumerate(letters)
    ]
    return RankLooks(0, 7, tuple(looks), **more)


def both(first: RankLooks, second: RankLooks) -> RankLooks:
    return RankLooks(0, 7, (*first.looks, *second.looks))


def test_shares_are_of_time_not_of_looks() -> None:
    # 2 s at 10 looks a second, then 20 s at 2: of 22 s, 2 + 4 are loading.
    told = both(seen("i" * 20), seen("i" * 8 + "c" * 32, 102.0, 2.0))
    [facts] = read_stacks([told])
    assert facts.looks == 60
    assert facts.shares[Category.LOADING] == pytest.approx(6 / 22)


def test_few_looks_say_nothing() -> None:
    assert read_stacks([seen("k" * 20)]) == ()


def test_how_often_it_comes() -> None:
    # 0.5 s of every 2 s; the last one is cut off.
    [facts] = read_stacks([seen(("k" * 5 + "c" * 15) * 4 + "kk")])
    assert facts.repeats[Category.CHECKPOINT].every_s == pytest.approx(2.0)
    assert facts.repeats[Category.CHECKPOINT].lasts_s == pytest.approx(0.5)


@pytest.mark.parametrize(
    "letters",
    [
        "kcc" * 20,
        # As a coin falls: 25 of 47 in rows of 2.3; chance alone gives 1 / (1 - 0.53) = 2.1.
        "kkckcckkkcckkckcccckkkkkcckckkkcckkkcccckkkccck",
    ],
)
def test_what_is_seen_here_and_there_has_no_interval(letters: str) -> None:
    [facts] = read_stacks([seen(letters)])
    assert facts.shares[Category.CHECKPOINT] > 0.3
    assert Category.CHECKPOINT not in facts.repeats


def test_pauses_between_looks_are_no_intervals() -> None:
    told = seen("cc" + "k" * 5 + "c" * 15)
    for place in range(1, 4):
        told = both(told, seen("cc" + "k" * 5 + "c" * 15, 100.0 + 30 * place))
    [facts] = read_stacks([told])
    assert Category.CHECKPOINT not in facts.repeats


def test_processes_apart_and_what_they_read() -> None:
    io = Reads(4.0, 8000.0, 40.0, 400.0, 2.0, 3, {"ext4": 1.0, "nfs4": 2.0})
    clock = ThreadTime(4.0, 1.0, 1.0, 0.0, 2.0)
    [first, second] = read_stacks([seen("i" * 40, io=io, helpers=2, clock=clock), seen("c" * 40)])
    assert (first.loaders, second.loaders) == (2, 0)
    assert first.reads == ReadFacts(
        2000.0, 10.0, 100.0, ("nfs4", "ext4"), files=3, main_cpus=0.5, loader_cpus=0.5
    )
    assert first.places == {Category.LOADING: "__getitem__ (train.py:3)"}
    assert second.reads is None


@pytest.mark.parametrize(
    ("shares", "loaders", "reads", "faster"),
    [
        # 9 loaders that wait load a batch in the time of a step: 1 / 0.1.
        ({"loading": 0.9}, 0, ReadFacts(main_cpus=0.2), 10.0),
        # 3 loaders that compute need 0.9 / 3 of what a step took.
        ({"loading": 0.9}, 0, ReadFacts(main_cpus=1.0), 1 / 0.3),
        # The step itself is the longer part: 1 / 0.4.
        ({"loading": 0.6}, 0, ReadFacts(main_cpus=0.4), 2.5),
        # From 1 to 3 loaders: three times at most, though 90 % are waited for.
        ({"waiting": 0.9}, 1, ReadFacts(loader_cpus=1.0), 3.0),
    ],
)
def test_no_more_gain_than_the_looks_allow(
    shares: dict[str, float], loaders: int, reads: ReadFacts, faster: float
) -> None:
    plain = stacks(**shares)
    seen = StackFacts(plain.looks, plain.shares, loaders=loaders, reads=reads)
    [found] = judged("input-bound", trainer(seen, use(), **CPUS))
    assert found.gain is not None
    assert found.gain.high == pytest.approx(faster)
