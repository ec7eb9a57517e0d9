"""Adam as TensorFlow and Keras write it, to compare with: all rows decay and move in every step.

It is as fast as it can be: one fused operation on the server, on moments beside their variable.
"""

import tensorflow as tf

import mooring.tensorflow as mt


class DenseAdam(tf.Module):
    def __init__(self, learning_rate, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
        super().__init__(name="DenseAdam")
        self.settings = {"lr": learning_rate, "beta1": beta_1, "beta2": beta_2, "epsilon": epsilon}

    def build(self, variables):
        self.parts = mt.parts_of(variables)
        self.slots = [
            [self._zeros(part, shape) for shape in (part.shape, part.shape, ())]
            for part in self.parts
        ]

    def minimize(self, loss, variables, tape):
        gradients = tape.gradient(loss, self.parts)
        for part, (m, v, steps), gradient in zip(self.parts, self.slots, gradients, strict=True):
            with tf.device(part.device):
                count = steps.assign_add(1.0)
                if isinstance(gradient, tf.IndexedSlices):
                    # Only its rows have come here; the whole gradient is made on the server.
                    gradient = tf.math.unsorted_segment_sum(
                        gradient.values, gradient.indices, part.shape[0]
                    )
                tf.raw_ops.ResourceApplyAdam(
                    var=part.handle,
                    m=m.handle,
                    v=v.handle,
                    beta1_power=self.settings["beta1"] ** count,
                    beta2_power=self.settings["beta2"] ** count,
                    grad=gradient,
                    **self.settings,
                )

    @staticmethod
    def _zeros(part, shape):
        with tf.distribute.get_strategy().extended.colocate_vars_with(part):
            return tf.Variable(lambda: tf.zeros(shape), shape=shape, trainable=False)
