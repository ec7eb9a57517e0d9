"""What the last lines of failed members tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import check_run, member, run

from mooring.doctor.registry import Unknown

KERAS_3 = 'File "/site-packages/keras/src/utils/traceback_utils.py", line 122, in error_handler'
KERAS_2 = 'File "/site-packages/tf_keras/src/engine/training.py", line 1, in fit'
SERVERS = (
    "ValueError: To use this dataset, you need to pass this dataset to "
    "ClusterCoordinator.create_per_worker_dataset."
)
MIRRORED = (
    "ValueError: Attempt to convert a value (PerReplica:{\n}) with an unsupported type "
    "(<class 'tensorflow.python.distribute.values.PerReplica'>) to a Tensor."
)


@pytest.mark.parametrize(
    ("lines", "strategy"),
    [
        ((KERAS_3, SERVERS), "ParameterServerStrategy"),
        ((KERAS_3, MIRRORED), "MultiWorkerMirroredStrategy"),
        # A loop that forgets create_per_worker_dataset, without Keras or with Keras 2.
        ((SERVERS,), None),
        ((KERAS_2, SERVERS), None),
        ((KERAS_3, "ValueError: something else"), None),
    ],
)
def test_fit_of_keras_3(lines: tuple[str, ...], strategy: str | None) -> None:
    words = {"worker-0": "", "worker-1": "\n".join(lines)}
    found = check_run("keras-fit", replace(run(member("worker-1")), last_words=words))
    assert [one.members for one in found] == ([("worker-1",)] if strategy else [])
    assert all(strategy in one.says for one in found if strategy)


def test_a_run_in_which_nobody_failed() -> None:
    with pytest.raises(Unknown):
        check_run("keras-fit", run(member("worker-0")))
