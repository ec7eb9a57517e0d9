"""Keras 3 on parameter servers: an Embedding that fetches rows, an Adam that touches rows.

As Keras writes them, the layer turns its whole table into a tensor and then gathers, and Adam lets
every row decay and moves it in every step. Where a layer or an optimizer does something unusual
(LoRA, quantised tables, AMSGrad, sparse inputs), it stays as it is.
"""

from __future__ import annotations

import tensorflow as tf

from . import guard, lazy, watching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def note_tables(module: Any) -> None:
    """Remember the Embedding layers: their tables may be made later than they are built."""

    def build(layer: Any, *args: Any, **kwargs: Any) -> None:
        watching.keras_embeddings.add(layer)

    guard.beside(module.Embedding, "build", "an Embedding layer of Keras", before=build)


def note_adam(module: Any) -> None:
    """Remember which variables Adam was built for."""

    def built(result: Any, adam: Any, var_list: Any, *args: Any, **kwargs: Any) -> None:
        # AMSGrad needs the whole history of every row: it cannot be lazy.
        if adam.amsgrad:
            return
        for variable in var_list:
            watching.keras_adam.update(id(part.handle) for part in watching.parts(variable))

    guard.beside(module.Adam, "build", "Adam of Keras", after=built)


def fetch_rows(module: Any, once: bool) -> None:
    """Exactly the same values and gradients. `once`: a row that a batch needs often travels once,
    and its gradients are summed, which Adam of Keras does not expect: it squares each of them."""

    def call(layer: Any, inputs: Any) -> Any:
        table = getattr(getattr(layer, "_embeddings", None), "value", None)
        plain = isinstance(table, tf.Variable) and isinstance(inputs, tf.Tensor)
        if not plain or layer.lora_enabled or getattr(layer, "quantization_mode", None):
            return NotImplemented
        rows = inputs if inputs.dtype in (tf.int32, tf.int64) else tf.cast(inputs, tf.int32)
        # As Keras does: a negative row counts from the end.
        rows = tf.where(rows < 0, rows + tf.cast(layer.input_dim, rows.dtype), rows)
        if once:
            unique, place = tf.unique(tf.reshape(rows, [-1]))
            found = tf.gather(tf.nn.embedding_lookup(table, unique), place)
            found = tf.reshape(found, tf.concat([tf.shape(rows), [layer.output_dim]], 0))
            found.set_shape(rows.shape.concatenate([layer.output_dim]))
        else:
            found = tf.nn.embedding_lookup(table, rows)
        return tf.cast(found, layer.compute_dtype)

    guard.instead(module.Embedding, "call", "the lookups of Keras, which stay whole", call)


def touch_rows(module: Any) -> None:
    """Adam as `mooring.tensorflow.LazyAdam` with bias by the step, for gradients that are rows."""

    def update_step(adam: Any, gradient: Any, variable: Any, learning_rate: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices) or adam.amsgrad:
            return NotImplemented
        kind = variable.dtype
        rows, values = lazy.rows_of(gradient)
        at = adam._get_variable_index(variable)
        m, v = adam._momentums[at].value, adam._velocities[at].value
        steps = tf.cast(tf.convert_to_tensor(adam.iterations) + 1, kind)
        rate = tf.cast(tf.convert_to_tensor(learning_rate), kind)
        scale = lazy.corrected(rate, adam.beta_1, adam.beta_2, steps)
        values = tf.cast(values, kind)
        lazy.update_rows(
            variable, m, v, rows, values, scale, adam.beta_1, adam.beta_2, adam.epsilon
        )
        return None

    guard.instead(module.Adam, "update_step", "Adam of Keras, which stays dense", update_step)
