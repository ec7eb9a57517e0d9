"""Variables of a checkpoint or a SavedModel: names and shapes, but neither servers nor traffic.

TensorFlow reads its own formats; it is imported only here, and only when such a file is given.
"""

from __future__ import annotations

import os
from pathlib import Path

from mooring.model.errors import BadInput
from mooring.variables.facts import Facts, PartFacts

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
#: What optimizers and checkpoints keep beside the variables of the model.
_BOOKKEEPING = ("save_counter", "_CHECKPOINTABLE_OBJECT_GRAPH", "iterations", "global_step")
_SLOTS = (
    "/m",
    "/v",
    "/steps",
    "/Adam",
    "/Adam_1",
    "/Adagrad",
    "/Momentum",
    "/RMSProp",
    "/RMSProp_1",
)


def prefix_of(path: Path) -> Path | None:
    """The prefix of the checkpoint that `path` names: itself, a folder's latest, a SavedModel's."""
    if (path / "saved_model.pb").is_file():
        return path / "variables" / "variables"
    if path.with_name(f"{path.name}.index").is_file():
        return path
    if path.suffix == ".index" and path.is_file():
        return path.with_suffix("")
    if (path / "checkpoint").is_file():
        latest = sorted(path.glob("*.index"), key=lambda each: each.stat().st_mtime)
        return latest[-1].with_suffix("") if latest else None
    return None


def read_checkpoint(prefix: Path, servers: int) -> Facts:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow as tf
    except ImportError:
        raise BadInput.at(
            "moor variables", str(prefix), "a checkpoint, and no TensorFlow to read it", "a run"
        ) from None
    try:
        reader = tf.train.load_checkpoint(str(prefix))
    except Exception as error:
        found = str(error).splitlines()[0][:100]
        raise BadInput.at("moor variables", str(prefix), found, "a readable checkpoint") from None
    types = reader.get_variable_to_dtype_map()
    parts = []
    for key, shape in sorted(reader.get_variable_to_shape_map().items()):
        name = key.removesuffix(_SUFFIX)
        last = name.rsplit("/", 1)[-1]
        slot = ".OPTIMIZER_SLOT" in name or "/slots/" in name or name.endswith(_SLOTS)
        if slot or last in _BOOKKEEPING or not types[key].is_floating:
            continue
        size_bytes = types[key].size
        for dimension in shape:
            size_bytes *= dimension
        parts.append(PartFacts(name, tuple(shape), size_bytes))
    return Facts(str(prefix), servers, tuple(parts), placed=False)
