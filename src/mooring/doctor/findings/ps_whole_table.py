"""Workers pull whole tables where they need some rows: what Keras 3's Embedding does on servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import MEBIBYTE, SAMPLES, servers_of, used
from mooring.doctor.findings.ps_tables import ShardedVariable, large_tables, named, sizes
from mooring.doctor.registry import CheckPage, Unknown, run_check
from mooring.model.amounts import size
from mooring.spec.edit import Change

_SNIPPET = """rows, place = tf.unique(tf.reshape(ids, [-1]))
found = tf.nn.embedding_lookup(table, rows)   # table: the tf.Variable itself, not a tensor of it
embedded = tf.reshape(tf.gather(found, place), (*ids.shape, width))
"""
_PAGE = CheckPage(
    why="In every step the server sends every row to the worker, which uses some hundred of them: "
    "network, memory and both CPUs move the whole table for nothing, and a larger table or one "
    "more worker makes it worse.",
    measured="From the graphs that the chief's coordinator schedules: the variable is read whole "
    "and rows are taken from that tensor, instead of from the variable on its server. Reported for "
    "tables from 4 MiB, with the bytes that the servers moved in a step.",
    fix="`variables.lookups: rows` in the job: the Embedding layers of Keras 3 then fetch each row "
    "that a batch needs once; the result is the same, the program stays as it is. In code of your "
    "own: `tf.nn.embedding_lookup` on the variable itself.",
    not_when="The table is small, or nearly all of its rows are used in every step. Without "
    "`optimizer: lazy` look at the loss with several workers: steps then follow each other so fast "
    "that updates of whole tables by Keras' Adam overlap, and it learnt less (benchmarks.md).",
)


@run_check("ps-whole-table", "Workers pull whole tables instead of rows", _PAGE)
def whole_table(facts: RunFacts) -> Iterator[Found]:
    tables = large_tables(facts, lambda part: part.whole)
    if not tables:
        return
    pulled_bytes = sum(table.size_bytes for table in tables)
    step_bytes = _bytes_per_step(facts)
    # Without a count of steps the size alone tells: a batch needs a hundredth of it at most.
    share = min(1.0, pulled_bytes / step_bytes) if step_bytes else 1.0
    evidence = [*sizes(tables)]
    if step_bytes:
        moved = step_bytes / MEBIBYTE
        evidence.append(Figure("moved by the servers in a step", moved, "MiB", SAMPLES))
    yield Found(
        says=f"every step pulls {named(tables)} whole: {size(pulled_bytes)}, "
        f"{100 * share:.0f} % of what the servers move",
        evidence=tuple(evidence),
        remedy=_remedy(tables),
        confidence=Confidence.CERTAIN,
        # It is what fills a server's card and its CPU, so it comes before these.
        weight=0.5 + 0.48 * share,
        members=("chief-0",),
        gain=Gain(1.0, 9.0, "benchmarks/ps.py lookups: rows ÷ whole tables of 2,000,000 rows"),
    )


def _bytes_per_step(facts: RunFacts) -> float | None:
    if not facts.steps_per_s:
        return None
    try:
        rates = [use.moved_bytes / use.span_s for _, use in used(servers_of(facts))]
    except Unknown:
        return None
    return sum(rates) / facts.steps_per_s


def _remedy(tables: Sequence[ShardedVariable]) -> Remedy:
    if all(table.keras_layer for table in tables):
        changes = (Change(("spec", "variables", "lookups"), "rows"),)
        return Remedy("let the layers fetch rows from the servers", changes)
    return Remedy(
        "look rows up on the variable itself",
        code=_SNIPPET,
        where="where the program looks rows up",
    )
