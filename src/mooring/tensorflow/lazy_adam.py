"""Adam that touches only the rows that have a gradient.

A batch uses some thousand rows of a table that has millions. Adam as TensorFlow and Keras write it
lets the moments of all rows decay and moves all rows in every step. Here a row that the batch did
not use is neither read nor written; its moments wait.

Bias is corrected as Adam does it, by the count of steps. A row that is first seen after 10,000
steps then moves by (1 - beta_1) / sqrt(1 - beta_2) = 3.2 times the learning rate, as in Adam;
`count_by="row"` counts each row's own updates instead, and it moves by the learning rate. Where
every row has a gradient in every step both counts are the same, and so this is exactly Adam.

Everything is computed on the server that holds the row; a worker sends the gradient, each row once.
Several workers may update a row at the same time; as with every optimizer of parameter servers, one
of two updates of a moment can then be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import tensorflow as tf

from mooring.inside.mooring_inside import lazy
from mooring.tensorflow.parts import parts, parts_of


class LazyAdam(tf.Module):
    """Create it in the strategy's scope and `build` it there, as an optimizer of Keras.

    It is no optimizer of Keras: use it in a training loop of your own. `tf.train.Checkpoint` saves
    and restores it, also into another number of parts. A variable's gradients must be either always
    sparse or always dense.
    """

    def __init__(
        self,
        learning_rate: float | Callable[[Any], Any] = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        count_by: Literal["step", "row"] = "step",
        name: str = "LazyAdam",
    ) -> None:
        """learning_rate: a number, or a function of the step such as a schedule of Keras."""
        super().__init__(name=name)
        self.learning_rate = learning_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        if count_by not in ("step", "row"):
            raise ValueError(f"count_by: found {count_by!r}, accepted: 'step' or 'row'")
        self._by_row = count_by == "row"
        self.iterations = tf.Variable(0, dtype=tf.int64, trainable=False, name="iterations")
        self.slots: list[_Slots] = []
        self._by_part: dict[Any, _PartSlots] = {}

    def build(self, variables: Iterable[Any]) -> None:
        """Make the moments, each on the server of its part. Call it once, with all variables."""
        for variable in variables:
            slots = _Slots(variable, self._by_row)
            self.slots.append(slots)
            for part, own in zip(parts(variable), slots.of_parts(), strict=True):
                self._by_part[part.ref()] = own

    def minimize(self, loss: Any, variables: Sequence[Any], tape: tf.GradientTape) -> None:
        """One step down the gradient of `loss`, which `tape` has recorded."""
        flat = parts_of(variables)
        self.apply_gradients(zip(tape.gradient(loss, flat), flat, strict=True))

    def apply_gradients(self, gradients_and_parts: Iterable[tuple[Any, Any]]) -> None:
        """One step; variables whose gradient is None stay as they are."""
        given = [(grad, _plain(part)) for grad, part in gradients_and_parts if grad is not None]
        _refuse_replicas()
        unknown = [part for _, part in given if part.ref() not in self._by_part]
        if unknown and not self.slots:
            with tf.init_scope():
                self.build(unknown)
        elif unknown:
            names = ", ".join(part.name for part in unknown)
            raise ValueError(f"LazyAdam was not built for {names}: name every variable in build()")
        rate: Any = self.learning_rate
        if callable(rate):
            rate = tf.cast(rate(self.iterations), tf.float32)
        step = None if self._by_row else tf.cast(self.iterations, tf.float32) + 1.0
        for gradient, part in given:
            slots = self._by_part[part.ref()]
            sparse = isinstance(gradient, tf.IndexedSlices)
            slots.once(sparse, part.name)
            (self._rows if sparse else self._whole)(part, slots, gradient, rate, step)
        self.iterations.assign_add(1)

    def _rows(self, part: Any, slots: _PartSlots, gradient: Any, rate: Any, step: Any) -> None:
        # On the worker: a row that occurs often travels once.
        rows, values = lazy.rows_of(gradient)
        with tf.device(part.device):
            count = slots.steps.sparse_read(rows) + 1.0 if step is None else step
            scale = lazy.corrected(rate, self.beta_1, self.beta_2, count)
            if step is None:
                scale = tf.reshape(scale, [-1] + [1] * (len(values.shape) - 1))
                tf.raw_ops.ResourceScatterUpdate(
                    resource=slots.steps.handle, indices=rows, updates=count
                )
            betas = self.beta_1, self.beta_2
            lazy.update_rows(part, slots.m, slots.v, rows, values, scale, *betas, self.epsilon)

    def _whole(self, part: Any, slots: _PartSlots, gradient: Any, rate: Any, step: Any) -> None:
        with tf.device(part.device):
            count = tf.reshape(slots.steps, [-1])[0] + 1.0 if step is None else step
            tf.raw_ops.ResourceApplyAdam(
                var=part.handle,
                m=slots.m.handle,
                v=slots.v.handle,
                beta1_power=self.beta_1**count,
                beta2_power=self.beta_2**count,
                lr=rate,
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=self.epsilon,
                grad=tf.convert_to_tensor(gradient),
            )
            if step is None:
                slots.steps.assign_add(tf.ones_like(slots.steps))


class _PartSlots:
    """Moments of one part; steps: one count a row (up to 2**24, where it stays: by then nothing is
    left to correct), or None where the optimizer's own count is used."""

    def __init__(self, m: Any, v: Any, steps: Any) -> None:
        self.m = m
        self.v = v
        self.steps = steps
        self._sparse: bool | None = None

    def once(self, sparse: bool, name: str) -> None:
        if self._sparse not in (None, sparse):
            raise ValueError(f"{name} has sparse gradients in one place and dense ones in another")
        self._sparse = sparse


class _Slots(tf.Module):
    """What one variable needs, divided as the variable is, so that checkpoints fit any division."""

    def __init__(self, variable: Any, by_row: bool) -> None:
        super().__init__(name="slots")
        flat = parts(variable)
        name = flat[0].name.split(":")[0].removesuffix("/part_0")
        divided = hasattr(variable, "variables")

        def together(made: list[Any], what: str) -> Any:
            if not divided:
                return made[0]
            return tf.__internal__.distribute.ShardedVariable(made, name=f"{name}/{what}")

        self.m = together([_beside(part, part.shape, f"{name}/m") for part in flat], "m")
        self.v = together([_beside(part, part.shape, f"{name}/v") for part in flat], "v")
        self.steps = None
        if by_row:
            counts = [_beside(part, part.shape[:1], f"{name}/steps") for part in flat]
            self.steps = together(counts, "steps")

    def of_parts(self) -> list[_PartSlots]:
        moments = list(zip(parts(self.m), parts(self.v), strict=True))
        counts = [None] * len(moments) if self.steps is None else parts(self.steps)
        return [_PartSlots(m, v, steps) for (m, v), steps in zip(moments, counts, strict=True)]


def _beside(part: Any, shape: Any, name: str) -> Any:
    """Zeros on the server that holds `part`."""
    with tf.distribute.get_strategy().extended.colocate_vars_with(part):
        return tf.Variable(
            lambda: tf.zeros(shape), shape=shape, dtype=tf.float32, trainable=False, name=name
        )


def _plain(variable: Any) -> Any:
    found = parts(variable)
    if len(found) > 1:
        raise ValueError(f"{variable.name} is divided: give the gradients of its parts (parts_of)")
    return found[0]


def _refuse_replicas() -> None:
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        raise ValueError(
            "LazyAdam does not sum gradients over replicas: use it with parameter servers or alone"
        )
