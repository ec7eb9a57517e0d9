"""Checkpoints take a part of the time."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Found
from mooring.doctor.findings.often import FrequentWork, too_often
from mooring.doctor.registry import CheckPage, run_check
from mooring.stacks.categories import Category

_CODE = """\
EVERY = TIMES * every_now  # steps between checkpoints; every_now: as it is
if step % EVERY == 0:
    state = copy.deepcopy(model.state_dict())  # the step after may go on
    threading.Thread(target=torch.save, args=(state, path)).start()
"""
_TENSORFLOW = """\
EVERY = TIMES * every_now  # steps between checkpoints; every_now: as it is
if step % EVERY == 0:
    manager.save(options=tf.train.CheckpointOptions(enable_async=True))
"""
_KIND = FrequentWork(
    Category.CHECKPOINT,
    0.05,
    "checkpoints",
    Confidence.CERTAIN,
    "save less often, or in the background",
    _CODE,
    _TENSORFLOW,
)
_PAGE = CheckPage(
    why="While a trainer writes a checkpoint it does not train, and all that wait for it wait.",
    measured="Looks of the launcher at each trainer's main thread while the job trained: the "
    "share of looks in functions that save (torch.save, tf.train.Checkpoint, Keras, "
    "safetensors, numpy, pickle). Reported when that is surely more than 5 %.",
    fix="Save less often: the finding says how much less would cost 2 %. Or save in the "
    "background: copy the state, and write it from a thread.",
    not_when="The machine is taken away often: then a lost hour costs more than frequent "
    "checkpoints.",
)


@run_check("checkpoint-often", "Checkpoints take a part of the time", _PAGE)
def checkpoint_often(facts: RunFacts) -> Iterator[Found]:
    yield from too_often(facts, _KIND)
