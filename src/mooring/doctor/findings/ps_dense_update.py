"""The optimizer touches every row of a table of which a batch uses some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import SAMPLES
from mooring.doctor.findings.ps_tables import ShardedVariable, large_tables, named, sizes
from mooring.doctor.registry import CheckPage, Unknown, run_check
from mooring.model.amounts import size
from mooring.spec.edit import Change
from mooring.variables import Maker

#: Weights and two moments, each read and written: so often a step moves the table's size.
_PASSES = 6
#: What one server moves through its memory in a second, estimated low.
_BYTES_PER_S = 4e9
#: Below this share of a step nobody would notice.
_LEAST_SHARE = 0.05
#: Of the time, by the busiest server, where no steps are reported.
_LEAST_BUSY = 0.5
_SNIPPET = """import mooring.tensorflow

with strategy.scope():
    optimizer = mooring.tensorflow.LazyAdam(learning_rate)
    optimizer.build(variables)
# in the step, instead of tape.gradient and apply_gradients:
optimizer.minimize(loss, variables, tape)
"""
_PAGE = CheckPage(
    why="Adam as TensorFlow and Keras write it lets the moments of all rows decay and moves all "
    "rows in every step. A batch uses some thousand rows of a table that has millions: nearly all "
    "of that work on the servers is for rows that the batch did not see.",
    measured="From the graphs that the chief's coordinator schedules: rows are taken from the "
    "variable, and the update assigns to all of it. The time is estimated: six times the table's "
    "size through a memory of 4 GB/s. Reported from 4 MiB and a twentieth of a step's time.",
    fix="`variables.optimizer: lazy` in the job: Adam of Keras 3 then reads and writes only rows "
    "that have a gradient; the program stays as it is. In a training loop of your own: "
    "`mooring.tensorflow.LazyAdam`.",
    not_when="The loss gets worse: lazy Adam is another optimizer. Rows that a batch does not use "
    "keep their moments instead of letting them decay. `moor run --fix` compares the loss after "
    "the same number of examples and says so; on this project's example it was 0.7 % higher than "
    "with dense Adam.",
)


@run_check("ps-dense-update", "The optimizer touches every row of a large table", _PAGE)
def dense_update(facts: RunFacts) -> Iterator[Found]:
    tables = large_tables(facts, lambda part: part.written_whole)
    if not tables:
        return
    size_bytes = sum(table.size_bytes for table in tables)
    timing: tuple[Figure, ...] = ()
    if not facts.steps_per_s:
        # How often it is done is not known: what the servers compute tells what it may cost.
        share = _busiest(facts)
        if share < _LEAST_BUSY:
            raise Unknown("fewer than two steps were reported")
    else:
        step_s = 1 / facts.steps_per_s
        update_s = _PASSES * size_bytes / _BYTES_PER_S
        share = min(0.9, update_s / step_s)
        timing = (
            Figure("a step takes", 1000 * step_s, "ms", SAMPLES),
            Figure("of it the update, estimated", 1000 * min(step_s, update_s), "ms", SAMPLES),
        )
    if share < _LEAST_SHARE:
        return
    yield Found(
        says=f"every step updates all of {named(tables)}: {size(size_bytes)} and "
        "twice that in moments",
        evidence=(
            *sizes(tables),
            *timing,
        ),
        remedy=_remedy(tables),
        confidence=Confidence.CERTAIN,
        weight=0.45 + 0.5 * share,
        members=("chief-0",),
        gain=Gain(1.0, 17.0, "benchmarks/ps.py lazy: lazy ÷ Keras' Adam on 2,000,000 rows"),
    )


def _busiest(facts: RunFacts) -> float:
    """The part of the time for which the busiest server computes, or wants to."""
    wanted = [
        server.use.runnable or server.use.cpus for server in facts.servers if server.use is not None
    ]
    return min(0.9, max(wanted, default=0.0))


def _remedy(tables: Sequence[ShardedVariable]) -> Remedy:
    does = "update only the rows that a batch used; compare the loss, it is another optimizer"
    if all(table.keras_adam for table in tables):
        return Remedy(does, (Change(("spec", "variables", "optimizer"), "lazy"),))
    where = "where the program makes its optimizer"
    if any(table.maker is Maker.KERAS_2 for table in tables):
        where += ", in a training loop of its own: Model.fit cannot use it"
    return Remedy(does, code=_SNIPPET, where=where)
