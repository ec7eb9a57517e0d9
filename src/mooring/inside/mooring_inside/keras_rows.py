"""Keras 3 on parameter servers: an Embedding that fetches rows, an Adam that touches rows.

As Keras writes them, the layer turns its whole table into a tensor and then gathers, and Adam lets
every row decay and moves it in every step. Where a layer or an optimizer does something unusual
(LoRA, quantised tables, AMSGrad, sparse inputs), it stays as it is.
"""

from __future__ import annotations

import tensorflow as tf

from . import lazy, watching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def note_tables(module: Any) -> None:
    """Remember the Embedding layers: their tables may be made later than they are built."""
    build = module.Embedding.build

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        watching.keras_embeddings.add(self)
        return build(self, *args, **kwargs)

    module.Embedding.build = noted


def note_adam(module: Any) -> None:
    """Remember which variables Adam was built for."""
    build = module.Adam.build

    def noted(self: Any, var_list: Any) -> Any:
        result = build(self, var_list)
        # AMSGrad needs the whole history of every row: it cannot be lazy.
        if not self.amsgrad:
            for variable in var_list:
                watching.keras_adam.add(id(variable.handle))
        return result

    module.Adam.build = noted


def fetch_rows(module: Any, once: bool) -> None:
    """Exactly the same values and gradients. `once`: a row that a batch needs often travels once,
    and its gradients are summed, which Adam of Keras does not expect: it squares each of them."""
    whole = module.Embedding.call

    def call(self: Any, inputs: Any) -> Any:
        table = getattr(getattr(self, "_embeddings", None), "value", None)
        plain = isinstance(table, tf.Variable) and isinstance(inputs, tf.Tensor)
        if not plain or self.lora_enabled or getattr(self, "quantization_mode", None):
            return whole(self, inputs)
        rows = inputs if inputs.dtype in (tf.int32, tf.int64) else tf.cast(inputs, tf.int32)
        # As Keras does: a negative row counts from the end.
        rows = tf.where(rows < 0, rows + tf.cast(self.input_dim, rows.dtype), rows)
        if once:
            unique, place = tf.unique(tf.reshape(rows, [-1]))
            found = tf.gather(tf.nn.embedding_lookup(table, unique), place)
            found = tf.reshape(found, tf.concat([tf.shape(rows), [self.output_dim]], 0))
            found.set_shape(rows.shape.concatenate([self.output_dim]))
        else:
            found = tf.nn.embedding_lookup(table, rows)
        return tf.cast(found, self.compute_dtype)

    module.Embedding.call = call


def touch_rows(module: Any) -> None:
    """Adam as `mooring.tensorflow.LazyAdam` with bias by the step, for gradients that are rows."""
    dense = module.Adam.update_step

    def update_step(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices) or self.amsgrad:
            return dense(self, gradient, variable, learning_rate)
        kind = variable.dtype
        rows, values = lazy.rows_of(gradient)
        at = self._get_variable_index(variable)
        m, v = self._momentums[at].value, self._velocities[at].value
        steps = tf.cast(tf.convert_to_tensor(self.iterations) + 1, kind)
        rate = tf.cast(tf.convert_to_tensor(learning_rate), kind)
        scale = lazy.corrected(rate, self.beta_1, self.beta_2, steps)
        values = tf.cast(values, kind)
        lazy.update_rows(
            variable, m, v, rows, values, scale, self.beta_1, self.beta_2, self.epsilon
        )
        return None

    module.Adam.update_step = update_step
