"""A program of each kind with the doctor's snippet in it: does it run, and is the table divided?

argv: the kind, and a file with the snippet. What stands before its first line about the step is run
where the program makes its strategy, the rest in the step.
"""

import sys
from pathlib import Path

import tensorflow as tf
from public_programs import cluster, repeated, said

ROWS, WIDTH = 65536, 4
IDS = [[1, 5, 9], [1, 2, 65535]]
WANTED = [[1.0], [0.0]]


def keras_2(setup, in_the_step):
    """Layers of Keras 2: the strategy alone is changed."""
    strategy = setup["strategy"]
    with strategy.scope():
        layers = tf.keras.layers
        model = tf.keras.Sequential(
            [layers.Embedding(ROWS, WIDTH, input_length=3), layers.Flatten(), layers.Dense(1)]
        )
        model(tf.constant(IDS))
        optimizer = tf.keras.optimizers.Adam(0.1)
        optimizer.build(model.trainable_variables)

    def replica():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(tf.constant(IDS)) - WANTED) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    assert in_the_step == ""
    return replica, model.layers[0].embeddings


def tensorflow(setup, in_the_step):
    """Variables of TensorFlow in a loop of one's own."""
    strategy = setup["strategy"]
    with strategy.scope():
        table = tf.Variable(tf.ones((ROWS, WIDTH)) * 0.1)
        kernel = tf.Variable(tf.ones((3 * WIDTH, 1)) * 0.2)

    def replica():
        with tf.GradientTape() as tape:
            found = tf.reshape(tf.nn.embedding_lookup(table, tf.constant(IDS)), (2, -1))
            loss = tf.reduce_mean((found @ tf.convert_to_tensor(kernel) - WANTED) ** 2)
        names = {"tape": tape, "loss": loss, "variables": [table, kernel], "tf": tf}
        exec(in_the_step, names)
        for part, gradient in zip(names["parts"], names["gradients"], strict=True):
            part.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss

    return replica, table


def keras_3(setup, in_the_step):
    """A model of Keras 3 whose table has moved out of it."""
    strategy, table = setup["strategy"], setup["table"]
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
        model(tf.zeros((2, 3, WIDTH)))
        optimizer = tf.keras.optimizers.Adam(0.1)
        optimizer.build(model.trainable_variables)
    look_up, _, update = in_the_step.partition("# ...")
    names = {**setup, "ids": tf.constant(IDS)}

    def replica():
        with tf.GradientTape(persistent=True) as tape:
            exec(look_up, names)
            loss = tf.reduce_mean((model(names["embedded"]) - WANTED) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        exec(f"# {update}", {**names, "loss": loss, "tape": tape})
        return loss

    return replica, table


def main():
    kind, snippet = sys.argv[1], Path(sys.argv[2]).read_text()
    where_made, mark, in_the_step = snippet.partition("# in the step")
    setup = {"tf": tf, "cluster": cluster(), "rows": ROWS, "width": WIDTH, "learning_rate": 0.1}
    exec(where_made, setup)
    replica, table = globals()[kind](setup, mark + in_the_step)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(setup["strategy"])

    @tf.function(autograph=False)
    def step():
        return setup["strategy"].run(replica)

    losses = repeated(coordinator, step, 4)
    said("parts", len(table.variables))
    said("learns", losses[-1] < losses[0])


if __name__ == "__main__":
    main()
