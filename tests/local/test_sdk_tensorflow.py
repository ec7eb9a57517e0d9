"""The SDK's TensorFlow part against TensorFlow itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli

pytestmark = [pytest.mark.framework, pytest.mark.slow]
ON_SERVERS = Path(__file__).parent / "lazy_adam_on_servers.py"
ROWS, WIDTH = 10_001, 8


@pytest.fixture(scope="module")
def tf() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow

    return tensorflow


def initial(tf: Any) -> Any:
    rows = tf.cast(tf.range(ROWS), tf.float32)
    return tf.sin(rows[:, None] + tf.range(WIDTH, dtype=tf.float32))


def dense_adam(tf: Any) -> Any:
    """What the script on servers does, in one process with Keras' own Adam."""
    table, kernel = tf.Variable(initial(tf)), tf.Variable(tf.ones((WIDTH, 1)))
    optimizer = tf.keras.optimizers.Adam(0.01)
    for number in range(5):
        with tf.GradientTape() as tape:
            rows = tf.nn.embedding_lookup(table, tf.range(ROWS))
            loss = tf.reduce_mean((rows @ kernel * (1.0 + 0.1 * number) - 1.0) ** 2)
        found = tape.gradient(loss, [table, kernel])
        optimizer.apply_gradients(
            zip([tf.convert_to_tensor(each) for each in found], [table, kernel], strict=True)
        )
    return table.numpy()


def test_on_parameter_servers_it_is_adam_where_every_row_has_a_gradient(
    tf: Any, tmp_path: Path
) -> None:
    import numpy as np

    from mooring.tensorflow import LazyAdam

    done = subprocess.run(
        [sys.executable, str(ON_SERVERS), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "MOORING_MEMBER": "chief-0"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    [found] = [json.loads(line[7:]) for line in lines if line.startswith("RESULT ")]
    told = [json.loads(line[12:]) for line in lines if line.startswith("::mooring:: ")]
    variables = [each for document in told for each in document.get("variables", [])]
    assert {"program": {"trait": "sdk-strategy"}} in told
    assert {"name": "table", "shape": [5000, 8], "bytes": 160_000, "server": 1, "part": 1} in (
        variables
    )
    # 320 KB are cut into a part for each of two servers; moments live beside their part.
    assert [rows for rows, _ in found["parts"]] == [5001, 5000]
    assert [device for _, device in found["parts"]] == found["slots"]
    assert len(set(found["slots"])) == 2
    assert found["restored"]
    assert found["steps"] == [5.0, 5.0]
    assert found["lookups"] == [["table", False]]
    assert found["pulls"] == [["kernel", True]]
    trained = np.load(tmp_path / "table.npy")
    np.testing.assert_allclose(trained, dense_adam(tf), rtol=0, atol=2e-6)

    # The checkpoint of two parts fits a table in one.
    table = tf.Variable(tf.zeros((ROWS, WIDTH)))
    optimizer = LazyAdam(0.01, count_by="row")
    optimizer.build([table])
    status = tf.train.Checkpoint(table=table, optimizer=optimizer).restore(found["path"])
    status.assert_existing_objects_matched()
    np.testing.assert_array_equal(table.numpy(), trained)
    assert float(optimizer.slots[0].steps[ROWS - 1]) == 5.0
    assert int(optimizer.iterations) == 5


def test_counted_by_the_step_it_is_adam_too(tf: Any) -> None:
    import numpy as np

    from mooring.tensorflow import LazyAdam

    one, two = tf.Variable(initial(tf)[:20]), tf.Variable(initial(tf)[:20])
    lazy, dense = LazyAdam(0.01), tf.keras.optimizers.Adam(0.01)
    for number in range(5):
        values = tf.cos(one * (number + 1.0))
        lazy.apply_gradients([(tf.IndexedSlices(values, tf.range(20), (20, WIDTH)), one)])
        dense.apply_gradients([(values, two)])
    np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("count_by", "late"),
    [
        # One update after 49 steps: m = 0.1 g, v = 0.001 g², corrected to g and g²: the rate.
        ("row", 0.1),
        # Corrected as all others at step 50: 0.1 / sqrt(0.001) = 3.162 times
        # sqrt(1 - 0.999^50) / (1 - 0.9^50) = 0.2209 / 0.9948, so 0.7021 of the rate.
        ("step", 0.07021),
    ],
)
def test_rows_without_gradient_stay(tf: Any, count_by: str, late: float) -> None:
    from mooring.tensorflow import LazyAdam

    table = tf.Variable(tf.ones((4, 2)))
    optimizer = LazyAdam(0.1, count_by=count_by)
    for number in range(50):
        # Row 3 comes for the first time in the last step; row 1 twice in each.
        rows = [1, 1, 3] if number == 49 else [1, 1]
        values = tf.ones((len(rows), 2)) * 0.5
        optimizer.apply_gradients([(tf.IndexedSlices(values, tf.constant(rows), (4, 2)), table)])
    assert table.numpy()[[0, 2]].tolist() == [[1, 1], [1, 1]]
    if count_by == "row":
        assert optimizer.slots[0].steps.numpy().tolist() == [0, 50, 0, 1]
    assert table.numpy()[3] == pytest.approx([1 - late, 1 - late], abs=1e-5)
    # A constant gradient moves a row by the rate in every step: 1 - 50 x 0.1.
    assert table.numpy()[1] == pytest.approx([-4.0, -4.0], abs=1e-4)


def test_it_refuses_what_would_train_wrongly(tf: Any) -> None:
    from mooring.tensorflow import LazyAdam

    one, two = tf.Variable(tf.ones((4, 2)), name="one"), tf.Variable(tf.ones((4, 2)), name="two")
    optimizer = LazyAdam()
    optimizer.build([one])
    with pytest.raises(ValueError, match="not built for two"):
        optimizer.apply_gradients([(tf.ones((4, 2)), two)])
    optimizer.apply_gradients([(tf.ones((4, 2)), one)])
    with pytest.raises(ValueError, match="sparse gradients in one place"):
        optimizer.apply_gradients([(tf.IndexedSlices(tf.ones((1, 2)), [1], (4, 2)), one)])


def test_a_keras_embedding_pulls_the_whole_table(
    tf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from mooring.tensorflow import check_lookups

    layer = tf.keras.layers.Embedding(50_000, 16, name="users")
    layer.build((None, 1))
    table = tf.Variable(tf.zeros((50_000, 16)), name="items")

    @tf.function
    def by_layer(ids: Any) -> Any:
        return layer(ids)

    @tf.function
    def by_rows(ids: Any) -> Any:
        return tf.nn.embedding_lookup(table, ids)

    with pytest.raises(ValueError, match="not been traced"):
        check_lookups(by_rows)
    by_layer(tf.constant([[1], [2]]))
    by_rows(tf.constant([[1], [2]]))
    [rows] = check_lookups(by_rows)
    assert (rows.variable, rows.whole) == ("items", False)
    assert capsys.readouterr().err == ""
    [pulled] = check_lookups(by_layer)
    assert (pulled.whole, pulled.table_bytes) == (True, 3_200_000)
    assert "pulls the whole table (3,200,000 bytes)" in capsys.readouterr().err


def test_a_timeline_and_a_checkpoint_say_what_servers_hold(tf: Any, tmp_path: Path) -> None:
    from support.moor import Moor

    moor = Moor(tmp_path / "home")
    path = tmp_path / "timeline.json"
    script = Path(__file__).parent / "timeline_of_servers.py"
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    subprocess.run([sys.executable, str(script), str(path)], env=env, check=True, timeout=240)
    answer = moor("variables", path, "-o", "json")
    assert answer.returncode == 0, answer.stderr
    found = {each["name"]: each for each in json.loads(answer.stdout)["variables"]}
    # Three rows of 16 floats are sent, and three ids of 4 bytes got; the kernel whole.
    assert found["table"]["step_bytes"] == 3 * 64 + 3 * 4
    assert found["table"]["shape"] == [20_000, 16]
    assert found["kernel"]["step_bytes"] == 16 * 4 * 4

    model = tf.Module()
    model.table = tf.Variable(tf.zeros((100_000, 16)))
    model.bias = tf.Variable(tf.zeros((16,)))
    tf.saved_model.save(model, str(tmp_path / "saved"))
    prefix = tf.train.Checkpoint(model=model).save(str(tmp_path / "checkpoint" / "model"))
    answer = moor("variables", tmp_path / "checkpoint", "--servers", "4", "-o", "json")
    assert answer.returncode == 0, answer.stderr
    told = [answer.stdout]
    for source in (tmp_path / "saved", Path(prefix)):  # here TensorFlow is imported already
        shown = CliRunner().invoke(cli, ["variables", str(source), "--servers", "4", "-o", "json"])
        assert shown.exit_code == 0, shown.output
        told.append(shown.stdout)
    for document in map(json.loads, told):
        assert [each["shape"] for each in document["variables"]] == [[100_000, 16], [16]]
        # 6.4 MB on one of four servers, or a quarter on each.
        imbalances = [round(each["imbalance"], 2) for each in document["placements"]]
        assert imbalances == [4.0, 4.0, 1.0]
