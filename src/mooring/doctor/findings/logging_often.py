"""Logging takes a part of the time."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Found
from mooring.doctor.findings.often import FrequentWork, too_often
from mooring.doctor.registry import CheckPage, run_check
from mooring.stacks.categories import Category

_CODE = """\
EVERY = TIMES * every_now  # steps between two lines; every_now: as it is
losses.append(loss.detach())
if step % EVERY == 0:
    print(f"step {step} loss {torch.stack(losses).mean():.4f}")
    losses.clear()
"""
_TENSORFLOW = """\
EVERY = TIMES * every_now  # steps between two summaries; every_now: as it is
with tf.summary.record_if(step % EVERY == 0):
    tf.summary.scalar("loss", loss, step=step)
"""
_KIND = FrequentWork(
    Category.LOGGING,
    0.05,
    "logging and summaries",
    Confidence.CERTAIN,
    "log less often, and let the writer buffer",
    _CODE,
    _TENSORFLOW,
)
_PAGE = CheckPage(
    why="Every line and every summary that a step waits for is time in which it does not "
    "train; on a network file system each flush is a round trip.",
    measured="Looks of the launcher at each trainer's main thread while the job trained: the "
    "share of looks in print, logging, TensorBoard, W&B, MLflow or progress bars. "
    "Reported when that is surely more than 5 %.",
    fix="Log every so many steps, without flushing each line; keep values on the device "
    "until then.",
    not_when="The program is being debugged.",
)


@run_check("logging-often", "Logging takes a part of the time", _PAGE)
def logging_often(facts: RunFacts) -> Iterator[Found]:
    yield from too_often(facts, _KIND)
