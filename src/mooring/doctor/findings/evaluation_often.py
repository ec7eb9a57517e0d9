"""Evaluation takes a part of the time."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Found
from mooring.doctor.findings.often import FrequentWork, too_often
from mooring.doctor.registry import CheckPage, run_check
from mooring.stacks.categories import Category

_CODE = """\
EVERY = TIMES * every_now  # steps between two evaluations; every_now: as it is
if step % EVERY == 0:
    evaluate(model, itertools.islice(held_out, 50))
"""
_TENSORFLOW = """\
model.fit(train, validation_data=held_out, validation_steps=50,
          validation_freq=TIMES)  # epochs between two evaluations
"""
_KIND = FrequentWork(
    Category.EVALUATION,
    0.1,
    "evaluation and metrics",
    Confidence.LIKELY,
    "evaluate less often, or on fewer examples",
    _CODE,
    _TENSORFLOW,
)
_PAGE = CheckPage(
    why="A trainer that evaluates does not train, and in a gang all others wait for it.",
    measured="Looks of the launcher at each trainer's main thread while the job trained: the "
    "share of looks in functions that are called so (evaluate, validate, eval_step…), "
    "Keras' and other trainers' evaluation, scikit-learn's and torchmetrics' metrics. "
    "Names can mislead: likely, not certain. Reported when that is surely more than "
    "10 %.",
    fix="Evaluate less often or on a part of the data; give TensorFlow jobs an "
    "`evaluator` role, which evaluates checkpoints beside the training.",
    not_when="The evaluation decides how training goes on (early stopping) and must come that "
    "often.",
)


@run_check("evaluation-often", "Evaluation takes a part of the time", _PAGE)
def evaluation_often(facts: RunFacts) -> Iterator[Found]:
    yield from too_often(facts, _KIND)
