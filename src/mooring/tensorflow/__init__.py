"""The SDK for TensorFlow: `import mooring.tensorflow as mt`.

    strategy = mt.strategy()        # workers and servers serve here and do not come back
    with strategy.scope():
        table = tf.Variable(...)    # placed as the job's `variables` say
        optimizer = mt.LazyAdam(1e-3)
        optimizer.build([table])
    ...
    mt.check_lookups(train)         # says if a lookup pulls a whole table

Importing it imports TensorFlow. It relies on nothing else of the package but `mooring.sdk` and
`mooring.sharding`.
"""

from mooring.tensorflow.lazy_adam import LazyAdam
from mooring.tensorflow.lookups import Lookup, check_lookups
from mooring.tensorflow.parts import parts_of
from mooring.tensorflow.strategies import strategy

__all__ = ["LazyAdam", "Lookup", "check_lookups", "parts_of", "strategy"]
