"""Model.fit of Keras 3 under a strategy that it does not work with."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.registry import CheckPage, DoesNotApply, run_check

#: The last line of the traceback of `fit`, and the strategy. As Keras 3.15 and TensorFlow 2.21 say.
_ERRORS = {
    "you need to pass this dataset to ClusterCoordinator.create_per_worker_dataset": (
        "ParameterServerStrategy"
    ),
    "with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>)": (
        "MultiWorkerMirroredStrategy"
    ),
}
#: A frame of Keras 3 stands in the traceback; those of Keras 2 are in tf_keras or keras/src/engine.
_KERAS_3 = "/keras/src/"
_KERAS_2 = ("/tf_keras/", "/keras/src/engine/")
_PAGE = CheckPage(
    why="`Model.fit` of Keras 3 does not know the datasets and values of strategies over several "
    "processes: it fails in its first step, with any job system and without one.",
    measured="The last lines of the members that failed: the error that TensorFlow raises there, "
    "below a line of Keras 3.",
    fix="Keras 2, which is still released for each TensorFlow: `pip install tf-keras`, and "
    '`TF_USE_LEGACY_KERAS: "1"` in the job\'s `env`. Or a training loop of your own, in which '
    "layers and optimizers of Keras 3 work (`moor init tensorflow`, examples/wide-deep).",
)
_SNIPPET = """pip install tf-keras        # Keras 2, of the same version as TensorFlow

spec:                       # in the job: tf.keras is Keras 2 then (`import keras` is not)
  env: {TF_USE_LEGACY_KERAS: "1"}

# or keep Keras 3, and write the loop yourself: coordinator.schedule(step) with parameter servers,
# strategy.run(step) with all-reduce
"""


@run_check("keras-fit", "Model.fit of Keras 3 does not work with this strategy", _PAGE)
def keras_fit(facts: RunFacts) -> Iterator[Found]:
    if not facts.last_words:
        raise DoesNotApply("no member failed")
    for member, text in facts.last_words.items():
        error = next((error for error in _ERRORS if error in text), None)
        if error is None or _KERAS_3 not in text or any(one in text for one in _KERAS_2):
            continue
        yield Found(
            says=f"{member} failed in Model.fit: Keras 3 has no fit under {_ERRORS[error]}",
            evidence=(Figure("it said", f"…{error}…", "", f"logs/{member}.log", (member,)),),
            remedy=Remedy(
                "use Keras 2 (tf-keras), or a training loop of your own",
                code=_SNIPPET,
                where="where the program is installed, and in the job",
            ),
            confidence=Confidence.CERTAIN,
            weight=1.0,
            members=(member,),
        )
        return
