"""The first hour of somebody new, in a fresh clone: what they type, and what they see.

The README and the tutorial are typed by `test_docs.py`; here are scripts that a stranger brings
along, and what goes wrong with them. Nothing in the scripts is of Mooring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent

import pytest

from support.moor import Moor, leftovers
from support.pages import File
from support.reader import ROOT, Reader
from support.terminal import terminal
from support.waiting import until


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has cloned the repository and typed `make install`."""
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is not a clone")
    with Reader(tmp_path_factory.mktemp("newcomer"), clone=True) as reader:
        code, printed = reader.type("make install")
        assert code == 0, printed
        assert "/.local/bin is not on your PATH: put this line into" in printed
        [line] = re.findall(r"^  (export PATH=.*)$", printed, re.MULTILINE)
        assert reader.type(line) == (0, "")
        code, where = reader.type("command -v moor")
        assert where.strip().endswith("/home/.local/bin/moor")
        yield reader
        code, printed = reader.type("make uninstall")
        assert code == 0, printed
        assert reader.type("ls ~/.local/bin ~/.local/share | grep -c moor")[1].strip() == "0"


def test_make_says_what_there_is(newcomer: Reader) -> None:
    code, printed = newcomer.type("make")
    assert code == 0
    assert "make run        train examples/wide-deep" in printed
    assert "make install    put moor into" in printed


def job(name: str, framework: str, roles: str, more: str = "") -> File:
    return File(
        f"{name}/job.yaml",
        dedent(
            f"""\
            apiVersion: mooring.dev/v1
            kind: TrainingJob
            metadata: {{name: {name}}}
            spec:
              framework: {framework}
              command: [python, train.py]
              roles: {roles}
            """
        )
        + more,
    )


DDP = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group(backend="gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = DDP(torch.nn.Linear(10, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for _ in range(10):
        loss = model(torch.randn(8, 10)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"epoch {epoch}: {loss.item():.3f}")
print(f"rank {rank} of {world}, local {os.environ['LOCAL_RANK']}")
dist.destroy_process_group()
"""


@pytest.mark.framework
def test_an_own_script_of_pytorch(newcomer: Reader) -> None:
    newcomer.write(File("ddp/train.py", DDP))
    code, printed = newcomer.type("moor run --workers 2 -- python ddp/train.py")
    assert code == 0, printed
    assert "framework: pytorch (ddp/train.py imports torch)" in printed
    assert re.search(r"^worker-0 │ epoch 2: ", printed, re.MULTILINE)
    assert "Succeeded  worker-0 and worker-1 exited with code 0" in printed
    _, logs = newcomer.type("moor logs last")
    for line in ("epoch 2: ", "rank 0 of 2, local 0", "rank 1 of 2, local 0"):
        assert line in logs


PS = """\
import json, os
import tensorflow as tf

task = json.loads(os.environ["TF_CONFIG"])["task"]
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if task["type"] in ("worker", "ps"):
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4)
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=task["type"], task_index=task["index"],
        protocol="grpc", config=config)
    server.join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weight = tf.Variable(5.0)

@tf.function
def step():
    weight.assign_sub(0.1 * weight)

for _ in range(20):
    coordinator.schedule(step)
coordinator.join()
print("weight", round(float(weight.numpy()), 3))
"""


@pytest.mark.framework
def test_an_own_script_with_parameter_servers(newcomer: Reader) -> None:
    newcomer.write(File("ps/train.py", PS))
    code, printed = newcomer.type("moor run --ps 1 --workers 1 -- python ps/train.py")
    assert code == 0, printed
    assert "framework: tensorflow (--ps)" in printed
    assert "Succeeded  chief-0 exited with code 0" in printed
    assert "weight 0.608" in newcomer.type("moor logs last chief")[1]
    # Which server carried how much.
    assert "through server" in printed


FAILS = """\
import os, signal

print("starting", flush=True)
if os.environ["MOORING_INDEX"] == "1":
    raise ValueError("no such column: clicks")
signal.pause()
"""


def test_a_script_that_fails_says_why_without_a_look_into_files(newcomer: Reader) -> None:
    newcomer.write(File("fails/train.py", FAILS))
    code, printed = newcomer.type("moor run --workers 2 -- python fails/train.py")
    assert code == 1
    assert "Failed  worker-1 exited with code 1" in printed
    assert re.search(r"^worker-1 ! ValueError: no such column: clicks$", printed, re.MULTILINE)
    assert nothing_is_left(newcomer)


HANGS = "import signal\nprint('waiting', flush=True)\nsignal.pause()\n"


def test_a_script_that_hangs_ends_with_its_time_limit(newcomer: Reader) -> None:
    newcomer.write(File("hangs/train.py", HANGS))
    command = "moor run --workers 2 --set timeLimit=3s -- python hangs/train.py"
    code, printed = newcomer.type(command)
    assert code == 1
    assert "Failed  over its time limit of 3s" in printed
    assert nothing_is_left(newcomer)


STANDS_STILL = """\
import os
import signal


def read_next_shard():
    signal.pause()


for step in range(1, 100):
    if step == 5:
        read_next_shard()
    print(f"step {step} loss {1 / step:.3f}", flush=True)
"""


def test_a_script_that_stands_still_is_ended_and_the_place_named(newcomer: Reader) -> None:
    newcomer.write(File("still/train.py", STANDS_STILL))
    stall = "--set failurePolicy.stallTimeout=2s --set failurePolicy.onStall=fail"
    code, printed = newcomer.type(f"moor run --workers 2 {stall} -- python still/train.py")
    assert code == 1, printed
    assert re.search(r"^train-\S+  Failed  hang: no step for ", printed, re.MULTILINE)
    _, findings = newcomer.type("moor doctor last")
    assert re.search(r"^1\. Nobody makes a step any more  hang, certain$", findings, re.MULTILINE)
    assert "worker-1 is at: read_next_shard (train.py:6)" in findings
    assert nothing_is_left(newcomer)


def test_a_logout_stops_what_runs_in_the_foreground_and_not_what_was_detached(
    newcomer: Reader,
) -> None:
    newcomer.write(File("stays/train.py", HANGS))
    newcomer.write(job("stays", "indexed", "{worker: {replicas: 2}}"))
    state = Moor(newcomer.home / ".local" / "state" / "mooring")
    command = [str(newcomer.home / ".local" / "bin" / "moor"), "run", "stays/job.yaml"]
    shell = ["sh", "-c", f'cd {newcomer.folder} && exec "$@"', "sh", *command]
    with terminal(100, 30, shell, newcomer.env) as window:
        until(lambda: window.screen().count(" running ") == 2, "both are running", 60)
        until(lambda: "│ waiting" in window.screen(), "what they print", 60)
    until(lambda: nothing_is_left(newcomer), "the end of the run", 60)

    with terminal(100, 30, [*shell, "--detach"], newcomer.env) as window:
        until(lambda: window.exit_code() == 0, "the run's name", 60)
        assert "moor attach stays-" in window.screen().replace("\n", "")
    assert re.search(r"^stays-\S+ +Running +2/2 ", newcomer.type("moor ps")[1], re.MULTILINE)
    code, printed = newcomer.type("moor stop stays && moor attach stays")
    assert code == 130, printed
    assert re.search(r"^stays-\S+ +Stopped ", printed, re.MULTILINE)
    until(lambda: not any(run.alive() for run in state.runs()), "the end of its process", 60)
    assert nothing_is_left(newcomer)


def nothing_is_left(newcomer: Reader) -> bool:
    runs = Moor(newcomer.home / ".local" / "state" / "mooring").runs()
    return bool(runs) and not any(leftovers(run) for run in runs)
