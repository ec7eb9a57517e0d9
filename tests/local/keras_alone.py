"""Five steps of a small Keras model in one process; prints losses and tables as JSON.

The second batch asks for a negative row, which counts from the end, and three times for row 4.
Rows 11 to 38 are never asked for, row 3 in the first step alone.
"""

import json

import tensorflow as tf

ROWS, WIDTH = 40, 4
seeded = tf.keras.initializers.RandomUniform(-0.1, 0.1, seed=1)
layer = tf.keras.layers.Embedding(ROWS, WIDTH, embeddings_initializer=seeded)
dense = tf.keras.layers.Dense(1, kernel_initializer=seeded)
model = tf.keras.Sequential([layer, tf.keras.layers.Flatten(), dense])
batches = [[[3, 5, 2], [7, 1, 0]], [[4, 4, -1], [4, 5, 6]]] + 3 * [[[5, 6, 7], [8, 9, 10]]]
model(tf.constant(batches[0]))
start = layer.embeddings.numpy().tolist()
optimizer = tf.keras.optimizers.Adam(0.1)
optimizer.build(model.trainable_variables)


@tf.function(reduce_retracing=True)
def train(rows):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(rows) - 1.0) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


losses, tables = [], [start]
for batch in batches:
    losses.append(float(train(tf.constant(batch))))
    tables.append(layer.embeddings.numpy().tolist())
[trace] = train._list_all_concrete_functions()
kinds = sorted({op.type for op in trace.graph.get_operations() if op.type.startswith("Resource")})
print(json.dumps({"losses": losses, "tables": tables, "kinds": kinds}))
