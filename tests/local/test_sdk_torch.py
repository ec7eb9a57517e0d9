"""The SDK's PyTorch part against torch itself: a table in parts is the table."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.own_process]
SCRIPT = Path(__file__).parent / "partitioned_ranks.py"


def run_ranks(world: int) -> list[dict[str, Any]]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    common |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **common, "RANK": str(rank)},
        )
        for rank in range(world)
    ]
    try:
        answers = [rank.communicate(timeout=180) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * world, answers
    return [json.loads(out.splitlines()[-1]) for out, _ in answers]


def whole_table(world: int) -> tuple[Any, Any]:
    """The same steps in one process, with torch's own table, on the batches of all ranks."""
    import partitioned_ranks as script
    import torch

    table = torch.nn.Embedding(script.ROWS, script.WIDTH, sparse=True)
    with torch.no_grad():
        table.weight.copy_(script.initial(torch.arange(script.ROWS)))
    model = script.Model(table)
    sparse = torch.optim.SparseAdam([table.weight], lr=0.1)
    dense = torch.optim.Adam(model.out.parameters(), lr=0.1)
    for step in range(script.STEPS):
        given = [script.batch(rank, step) for rank in range(world)]
        ids, wanted = (torch.cat([each[at] for each in given]) for at in (0, 1))
        for optimizer in (sparse, dense):
            optimizer.zero_grad()
        ((model(ids) - wanted) ** 2).mean().backward()
        for optimizer in (sparse, dense):
            optimizer.step()
    return table.weight.tolist(), model.out.weight.tolist()


@pytest.mark.parametrize("world", [1, 2])
def test_a_table_in_parts_learns_what_a_whole_one_learns(
    world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    expected, out = whole_table(world)
    found = run_ranks(world)
    rows = {int(row): value for rank in found for row, value in rank["rows"].items()}
    assert sorted(rows) == list(range(101))
    for row, value in rows.items():
        assert value == pytest.approx(expected[row], abs=1e-5), row
    for rank in found:
        assert rank["out"][0] == pytest.approx(out[0], abs=1e-5)


def test_ids_outside_of_the_table_are_named() -> None:
    import torch

    from mooring.torch import PartitionedEmbedding

    table = PartitionedEmbedding(10, 2)
    with pytest.raises(IndexError, match="ids 3 to 10 in a table of 10 rows"):
        table(torch.tensor([3, 10]))


def test_each_kind_of_parameter_gets_its_optimizer() -> None:
    import torch

    from mooring.torch import optimizers

    model = torch.nn.ModuleDict(
        {
            "sparse": torch.nn.Embedding(10, 2, sparse=True),
            "dense": torch.nn.Embedding(10, 2),
            "out": torch.nn.Linear(2, 1),
        }
    )
    made = optimizers(model, lr=0.1)
    held = [sum(len(group["params"]) for group in part.param_groups) for part in made.parts]
    assert [type(part).__name__ for part in made.parts] == ["SparseAdam", "Adam"]
    assert held == [1, 3]
    ids = torch.tensor([1, 2])
    before = model["sparse"].weight.detach().clone()
    (model["out"](model["sparse"](ids) + model["dense"](ids))).sum().backward()
    made.step()
    moved = (model["sparse"].weight.detach() != before).any(1).tolist()
    assert [row for row, changed in enumerate(moved) if changed] == [1, 2]
    made.load_state_dict(made.state_dict())
