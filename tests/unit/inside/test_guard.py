"""Functions of somebody else with ours around them: ours may fail, the program may not notice."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.inside.mooring_inside import guard, telling

ERRORS = [
    ValueError("no"),
    AttributeError("handle"),
    GeneratorExit(),
    AssertionError(),
    MemoryError(),
]


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    notes: list[str] = []
    monkeypatch.setattr(telling, "note", notes.append)
    monkeypatch.setattr(guard, "_noted", set())
    yield notes


class Program:
    def answer(self, number: int = 1) -> int:
        """What it answers."""
        if number < 0:
            raise LookupError("the program's own")
        return 2 * number


class Inheriting(Program):
    pass


def fails_with(error: BaseException) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


@pytest.fixture
def program() -> type[Program]:
    return type("Copy", (Program,), {"answer": Program.answer})


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("place", ["before", "after", "ended"])
def test_ours_fails_once_and_is_taken_away(
    program: type[Program], said: list[str], error: BaseException, place: str
) -> None:
    guard.beside(program, "answer", "an answer", **{place: fails_with(error)})
    assert [program().answer(3), program().answer(number=4)] == [6, 8]
    assert program.answer is Program.answer
    assert len(said) == 1
    assert said[0].startswith(f"could not look into an answer: {type(error).__name__}")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_replacement_that_fails_leaves_the_call_to_the_program(
    program: type[Program], said: list[str], error: BaseException
) -> None:
    guard.instead(program, "answer", "an answer", fails_with(error))
    assert [program().answer(3), program().answer(3)] == [6, 6]
    assert program.answer is Program.answer
    assert len(said) == 1


def test_a_replacement_answers_or_passes(program: type[Program], said: list[str]) -> None:
    guard.instead(
        program, "answer", "", lambda self, number: 100 if number == 1 else NotImplemented
    )
    assert [program().answer(1), program().answer(2)] == [100, 4]
    assert said == []


@pytest.mark.parametrize("place", ["before", "after", "ended"])
def test_errors_of_the_program_pass_untouched(
    program: type[Program], said: list[str], place: str
) -> None:
    seen: list[str] = []
    guard.beside(program, "answer", "", **{place: lambda *args: seen.append(place)})
    wrapped = program.answer
    with pytest.raises(LookupError, match="the program's own"):
        program().answer(-1)
    assert program.answer is wrapped
    assert seen == ([] if place == "after" else [place])
    assert said == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_signals_raise_is_the_programs(program: type[Program], error: BaseException) -> None:
    guard.beside(program, "answer", "", before=fails_with(error))
    with pytest.raises(type(error)):
        program().answer(1)


def test_what_was_inherited_is_inherited_again() -> None:
    guard.beside(Inheriting, "answer", "", before=fails_with(ValueError()))
    assert "answer" in vars(Inheriting)
    assert Inheriting().answer(2) == 4
    assert "answer" not in vars(Inheriting)


def test_whoever_wrapped_ours_keeps_it(program: type[Program]) -> None:
    guard.beside(program, "answer", "", before=fails_with(ValueError()))
    ours = program.answer
    program.answer = theirs = lambda self, number: ours(self, number) + 1  # type: ignore[method-assign]
    assert [program().answer(1), program().answer(1)] == [3, 3]
    assert program.answer is theirs


def test_name_and_signature_stay(program: type[Program]) -> None:
    guard.beside(program, "answer", "", before=lambda *args: None)
    assert program.answer.__doc__ == "What it answers."
    assert str(inspect.signature(program.answer)) == "(self, number: 'int' = 1) -> 'int'"


@given(st.lists(st.integers(-2, 5)), st.sampled_from([*ERRORS, None]), st.integers(0, 5))
def test_the_program_sees_what_it_would_see_alone(
    numbers: list[int], error: BaseException | None, good: int
) -> None:
    """Ours works so many times and then fails, or never does."""
    program = type("Copy", (Program,), {"answer": Program.answer})
    left = [good]

    def ours(*args: Any) -> None:
        left[0] -= 1
        if error is not None and left[0] < 0:
            raise error

    guard.beside(program, "answer", "", before=ours, after=ours, ended=ours)

    def outcome(kind: type[Program], number: int) -> object:
        try:
            return kind().answer(number)
        except LookupError as raised:
            return str(raised)

    assert [outcome(program, n) for n in numbers] == [outcome(Program, n) for n in numbers]
