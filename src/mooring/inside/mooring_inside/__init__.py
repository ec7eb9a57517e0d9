"""Watches the variables of a TensorFlow program with parameter servers, and swaps what it was told;
lets a PyTorch program end in order.

`start` takes a JSON object: `lookups: rows` makes Keras' Embedding fetch rows, `optimizer: lazy`
makes its Adam touch only rows that have a gradient. Nothing is imported here that the program does
not import itself: every change waits for the module that it is about. Standard library and the
framework only; Python 3.8.
"""

from __future__ import annotations

import json

from . import imports


def start(wanted: str) -> None:
    told = json.loads(wanted)

    def context(module: object) -> None:
        from . import ending

        ending.let_go_at_once(module)

    def strategy(module: object) -> None:
        from . import watching

        watching.watch_variables(module)

    def coordinator(module: object) -> None:
        from . import watching

        watching.watch_functions(module)

    def keras_variables(module: object) -> None:
        from . import watching

        watching.name_by_path(module)

    def keras_2(module: object) -> None:
        from . import watching

        watching.note_layers_of_keras_2(module)

    def embedding(module: object) -> None:
        from . import keras_rows

        keras_rows.note_tables(module)
        if told.get("lookups") == "rows":
            keras_rows.fetch_rows(module, once=told.get("optimizer") == "lazy")

    def adam(module: object) -> None:
        from . import keras_rows

        keras_rows.note_adam(module)
        if told.get("optimizer") == "lazy":
            keras_rows.touch_rows(module)

    def process_groups(module: object) -> None:
        from . import gloo_ending

        gloo_ending.wait_at_exit(module)

    imports.after(
        {
            "torch.distributed.distributed_c10d": process_groups,
            "tensorflow.python.eager.context": context,
            "tensorflow.python.distribute.parameter_server_strategy_v2": strategy,
            "tensorflow.python.distribute.coordinator.cluster_coordinator": coordinator,
            "keras.src.backend.tensorflow.core": keras_variables,
            "keras.src.engine.base_layer": keras_2,
            "tf_keras.src.engine.base_layer": keras_2,
            "keras.src.layers.core.embedding": embedding,
            "keras.src.optimizers.adam": adam,
        }
    )
