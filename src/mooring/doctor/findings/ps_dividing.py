"""How large variables are divided over all servers, by the kind of program. No check itself.

Who made the variables decides what works: TensorFlow's own and those of Keras 2 can be divided by
the strategy, those of Keras 3 cannot (its layers ask a divided variable for a handle that it does
not have), and with the SDK's strategy the job says it.
"""

from __future__ import annotations

from mooring.doctor.facts import RunFacts, Trait
from mooring.doctor.finding import Remedy
from mooring.sharding import LEAST_PARTED_BYTES, VariablePlacement
from mooring.spec.edit import Change
from mooring.variables import Maker

_STRATEGY = """partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
    min_shard_bytes={least_bytes}, max_shards={servers})
strategy = tf.distribute.ParameterServerStrategy(cluster, variable_partitioner=partitioner)
"""
_OF_PARTS = """# in the step: a divided variable has no gradient, its parts have; update these
parts = [part for one in variables for part in getattr(one, "variables", [one])]
gradients = tape.gradient(loss, parts)
"""
_TABLE = """import mooring.tensorflow

with strategy.scope():  # instead of the Embedding layer, whose variable cannot be divided
    table = tf.Variable(tf.random.uniform((rows, width), -0.05, 0.05), name="table")
    table_optimizer = mooring.tensorflow.LazyAdam(learning_rate)
    table_optimizer.build([table])
# in the step: look up and update the table beside the model; the tape is persistent=True
embedded = tf.nn.embedding_lookup(table, ids)
# ... and after the loss is known
table_optimizer.minimize(loss, [table], tape)
"""
_PLACE = "where the program makes its strategy"


def divide(facts: RunFacts, does: str) -> Remedy:
    """By the job file where it has the say, otherwise in the program; in words where neither is
    known to work."""
    declared = facts.job.spec.variables
    makers = {part.maker for part in facts.variables if part.maker is not None}
    if Trait.SDK_STRATEGY in facts.program or not makers:
        whole = declared is not None and declared.placement is not VariablePlacement.PARTITIONED
        if whole and Trait.KERAS_3 not in facts.program:
            field = ("spec", "variables", "placement")
            return Remedy(does, (Change(field, VariablePlacement.PARTITIONED.value),))
        return Remedy(f"{does}; how depends on the program (docs/parameter-servers.md)")
    if Maker.KERAS_3 in makers and Maker.KERAS_2 not in makers:
        return _beside_keras_3(facts, does)
    code = _strategy(facts, LEAST_PARTED_BYTES)
    if Maker.KERAS_2 not in makers:
        code += _OF_PARTS
    return Remedy(does, code=code, where=_PLACE)


def _beside_keras_3(facts: RunFacts, does: str) -> Remedy:
    """Tables move out of Keras; what stays there must be too small for the partitioner."""
    model = [part for part in facts.variables if part.trainable]
    of_keras = [part for part in model if part.maker is Maker.KERAS_3]
    staying = [part.size_bytes for part in of_keras if not part.keras_layer]
    # It cuts into parts of at least this size: less than twice as much stays whole.
    least_bytes = max([LEAST_PARTED_BYTES, *staying])
    code = _strategy(facts, least_bytes)
    if any(part.keras_layer for part in of_keras):
        return Remedy(does, code=code + _TABLE, where=_PLACE + " and its tables")
    return Remedy(does, code=code + _OF_PARTS, where=_PLACE)


def _strategy(facts: RunFacts, least_bytes: int) -> str:
    return _STRATEGY.format(least_bytes=least_bytes, servers=len(facts.servers))
