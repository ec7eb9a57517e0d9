"""Which word of a command is Python, and what it runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.frameworks.commands import PythonCommand, python_command, with_interpreter


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python", "train.py", "-m", "x"], PythonCommand(0, "python", script="train.py")),
        (["python3", "-u", "a/b.py"], PythonCommand(0, "python3", script="a/b.py")),
        (["python", "-m", "pkg.train"], PythonCommand(0, "python", module="pkg.train")),
        (["python", "-mpkg"], PythonCommand(0, "python", module="pkg")),
        (["python", "-uSc", "pass"], PythonCommand(0, "python", "S", code="pass")),
        (["python", "-X", "dev", "-W", "error", "t.py"], PythonCommand(0, "python", script="t.py")),
        (["python", "-Xdev", "-I", "t.py"], PythonCommand(0, "python", "I", script="t.py")),
        (["/v/bin/python3.11", "t.py"], PythonCommand(0, "/v/bin/python3.11", script="t.py")),
        (["python"], PythonCommand(0, "python")),
        (["python", "-"], PythonCommand(0, "python")),
        (["mpirun", "-np", "2", "python", "t.py"], PythonCommand(3, "python", script="t.py")),
        (["/usr/bin/mpiexec", "python3", "t.py"], PythonCommand(1, "python3", script="t.py")),
        (["mpirun", "./prog"], None),
        (["torchrun", "train.py"], None),
        (["conda", "run", "-n", "x", "python", "train.py"], None),
        (["docker", "run", "image", "python", "train.py"], None),
        (["sh", "-c", "python train.py"], None),
        (["pythonista", "train.py"], None),
        ([], None),
    ],
)
def test_what_python_is_given(words: list[str], expected: PythonCommand | None) -> None:
    assert python_command(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python", "python"], ("/x/python", "python")),
        (["python3", "t.py"], ("/x/python", "t.py")),
        (["mpirun", "python", "t.py"], ("mpirun", "/x/python", "t.py")),
        (["python3.12", "t.py"], ("python3.12", "t.py")),
        (["./python", "t.py"], ("./python", "t.py")),
        (["echo", "python"], ("echo", "python")),
    ],
)
def test_the_interpreter_takes_the_place_of_its_word(
    words: list[str], expected: tuple[str, ...]
) -> None:
    assert with_interpreter(words, "/x/python") == expected


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_words_have_an_answer(words: list[str]) -> None:
    command = python_command(["python", *words])
    assert command is not None
    given_to_it = (command.script, command.module, command.code)
    assert sum(value is not None for value in given_to_it) <= 1
    assert with_interpreter(["python", *words], "/p") == ("/p", *words)
