"""What a stack is about: frames from the outermost inwards, as py-spy names them."""

from __future__ import annotations

import pytest

from mooring.stacks.categories import Category
from mooring.stacks.classify import Frame, Stack, classify, read_table

LIB = "/venv/lib/python3.11/site-packages/"
LOADER = f"{LIB}torch/utils/data/dataloader.py"
FETCH = f"{LIB}torch/utils/data/_utils/fetch.py"
OWN = "/home/me/train.py"


def stack(*frames: str, text: str = "") -> Stack:
    """Frames as `function file`; without a file they are the user's own, below `train`."""
    found = [Frame("<module>", OWN, 90), Frame("train", OWN, 40)]
    for one in frames:
        function, _, file = one.partition(" ")
        found.append(Frame(function, file or OWN, 50))
    last = found[-1]
    return (*found[:-1], Frame(last.function, last.file, last.line, text))


def category(*frames: str, text: str = "") -> Category:
    return classify([stack(*frames, text=text)])[0].category


@pytest.mark.parametrize(
    ("frames", "about"),
    [
        # torch: one process for each loader, or none.
        (
            (
                f"_BaseDataLoaderIter.__next__ {LOADER}",
                f"_MultiProcessingDataLoaderIter._next_data {LOADER}",
                f"_MultiProcessingDataLoaderIter._get_data {LOADER}",
                "wait /usr/lib/python3.11/threading.py",
            ),
            Category.WAITING,
        ),
        (
            (
                f"_BaseDataLoaderIter.__next__ {LOADER}",
                f"_SingleProcessDataLoaderIter._next_data {LOADER}",
                f"_MapDatasetFetcher.fetch {FETCH}",
                "Images.__getitem__",
                f"open {LIB}PIL/Image.py",
            ),
            Category.LOADING,
        ),
        # Before Python 3.11 there are no classes in the names.
        ((f"__next__ {LOADER}", f"_next_data {LOADER}", f"fetch {FETCH}"), Category.LOADING),
        ((f"default_collate {LIB}torch/utils/data/_utils/collate.py",), Category.LOADING),
        (
            (f"OwnedIterator._next_internal {LIB}tensorflow/python/data/ops/iterator_ops.py",),
            Category.WAITING,
        ),
        ((f"read_csv {LIB}pandas/io/parsers/readers.py",), Category.LOADING),
        ((f"load {LIB}numpy/lib/_npyio_impl.py",), Category.LOADING),
        # A progress bar around the loader.
        ((f"tqdm.__iter__ {LIB}tqdm/std.py", f"__next__ {LOADER}"), Category.WAITING),
        (
            (f"tqdm.__iter__ {LIB}tqdm/std.py", f"tqdm.update {LIB}tqdm/std.py"),
            Category.LOGGING,
        ),
        ((f"save {LIB}torch/serialization.py",), Category.CHECKPOINT),
        ((f"savez {LIB}numpy/lib/_npyio_impl.py",), Category.CHECKPOINT),
        ((f"CheckpointManager.save {LIB}tensorflow/python/checkpoint/x.py",), Category.CHECKPOINT),
        (("save_checkpoint", f"cpu {LIB}torch/_tensor.py"), Category.CHECKPOINT),
        ((f"SummaryWriter.add_scalar {LIB}torch/utils/tensorboard/writer.py",), Category.LOGGING),
        (("Logger.info /usr/lib/python3.11/logging/__init__.py",), Category.LOGGING),
        ((f"Run.log {LIB}wandb/sdk/wandb_run.py",), Category.LOGGING),
        (("evaluate", f"Linear.forward {LIB}torch/nn/modules/linear.py"), Category.EVALUATION),
        # Whatever an evaluation does is evaluation: loading its data, printing its result.
        (("evaluate", f"__next__ {LOADER}"), Category.EVALUATION),
        ((f"Trainer.evaluate {LIB}keras/src/trainers/trainer.py",), Category.EVALUATION),
        ((f"all_reduce {LIB}torch/distributed/distributed_c10d.py",), Category.COMMUNICATION),
        (
            (f"join {LIB}tensorflow/python/distribute/coordinator/cluster_coordinator.py",),
            Category.COMMUNICATION,
        ),
        ((f"Server.join {LIB}tensorflow/python/training/server_lib.py",), Category.SERVING),
        ((f"Linear.forward {LIB}torch/nn/modules/linear.py",), Category.COMPUTE),
        # A library's function of that name is nobody's evaluation.
        ((f"validate {LIB}pydantic/main.py",), Category.COMPUTE),
        ((f"StrDict.__getitem__ {LIB}somewhere/else.py",), Category.COMPUTE),
        ((), Category.COMPUTE),
    ],
)
def test_frames(frames: tuple[str, ...], about: Category) -> None:
    assert category(*frames) is about


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("    print(f'step {step}', flush=True)", Category.LOGGING),
        ("    os.fsync(log.fileno())", Category.LOGGING),
        ("    data = open(path, 'rb').read()", Category.LOADING),
        ("    image = cv2.imread(path)", Category.LOADING),
        ("    pickle.dump(state, file)", Category.CHECKPOINT),
        ("    comm.Allreduce(mine, total)", Category.COMMUNICATION),
        ("    loss = model(batch)", Category.COMPUTE),
        # It waits for the device, not for the terminal.
        ("    print(loss.item())", Category.COMPUTE),
        ("    blueprint(3)", Category.COMPUTE),
        ("", Category.COMPUTE),
    ],
)
def test_lines_of_calls_that_have_no_frame(text: str, about: Category) -> None:
    assert category(text=text) is about


def test_a_line_counts_only_where_the_program_is() -> None:
    """The line of `train` is not looked at while something below it runs."""
    frames = (
        Frame("train", OWN, 40, "print(model(batch))"),
        Frame("forward", f"{LIB}torch/nn/modules/linear.py", 7),
    )
    assert classify([frames])[0].category is Category.COMPUTE


def test_a_function_that_trains_is_no_evaluation_whatever_its_name() -> None:
    """`evaluate` tries a configuration by training with it."""
    steps = stack("evaluate", f"Tensor.backward {LIB}torch/_tensor.py")
    forward = stack("evaluate", f"Linear.forward {LIB}torch/nn/modules/linear.py")
    assert [one.category for one in classify([forward])] == [Category.EVALUATION]
    assert {one.category for one in classify([forward, steps])} == {Category.COMPUTE}


def test_where_is_the_innermost_line_of_the_program() -> None:
    [seen] = classify([stack("save_all", f"save {LIB}torch/serialization.py")])
    assert seen.where == "save_all (train.py:50)"


def test_imports_are_about_nothing() -> None:
    module = f"<module> {LIB}tensorflow/python/distribute/coordinator/cluster_coordinator.py"
    assert category(module) is Category.COMPUTE
    assert category("_find <frozen importlib._bootstrap>", f"get {LIB}PIL/x.py") is Category.COMPUTE
    assert classify([()])[0].category is Category.COMPUTE


def test_every_rule_of_the_table_names_files_or_is_about_own_code() -> None:
    for rule in read_table().rules:
        assert bool(rule.files) != rule.own, rule
        assert not (rule.own and "*" in rule.functions), rule
