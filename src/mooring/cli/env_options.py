"""`--env`, `--env-file` and `--no-check`: what `moor run` and `moor rerun` take beside a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from mooring.backends.local.preparing import Given
    from mooring.record import RunRecord
    from mooring.spec import TrainingJob

Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class EnvOptions:
    """Variables that are given on the command line, and whether to look before the start."""

    pairs: tuple[str, ...]
    files: tuple[Path, ...]
    check: bool

    def of_job(self) -> dict[str, str]:
        """Those of `--env` that become part of the job. Raises BadInput."""
        from mooring.backends.local.inherited import looks_secret

        return {name: text for name, text in self._given().items() if not looks_secret(name)}

    def given(
        self, job: TrainingJob, again: RunRecord | None = None, more: tuple[Path, ...] = ()
    ) -> Given:
        """What members inherit and nobody writes down. Raises BadInput.

        `more` are files of the run that is repeated, weaker than those of the command line.
        """
        from mooring.backends.local.inherited import looks_secret, refuse_owned
        from mooring.backends.local.preparing import Given
        from mooring.spec.env_file import load_env_file

        variables: dict[str, str] = {}
        files = tuple(dict.fromkeys(path.absolute() for path in (*more, *self.files)))
        for path in files:
            of_file = load_env_file(path)
            refuse_owned(job, of_file, str(path))
            variables |= of_file
        of_options = {name: text for name, text in self._given().items() if looks_secret(name)}
        refuse_owned(job, of_options, "--env")
        variables |= of_options
        return Given(variables, tuple(map(str, files)), again, self.check)

    def _given(self) -> dict[str, str]:
        from mooring.model.errors import BadInput

        variables = {}
        for pair in self.pairs:
            name, equals, text = pair.partition("=")
            if not name or not equals:
                # Not shown: somebody may have given the value alone.
                raise BadInput.at("moor", "--env", "a text without KEY=", "KEY=VALUE")
            if name.startswith("MOORING_"):
                accepted = "another name: those that begin with MOORING_ are set by Mooring"
                raise BadInput.at("moor", "--env", name, accepted)
            if not text.isascii() and any(0xD800 <= ord(char) < 0xE000 for char in text):
                raise BadInput.at("moor", f"--env {name}", "bytes that are no text", "UTF-8 text")
            variables[name] = text
        return variables


def env_options(function: Function) -> Function:
    """Adds the options; the function gets them as `environment`."""

    @wraps(function)
    def gathered(*args: Any, env: Any, env_files: Any, check: Any, **values: Any) -> object:
        return function(*args, environment=EnvOptions(env, env_files, check), **values)

    decorated: Any = gathered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


_OPTIONS = (
    click.option(
        "--env",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a variable of every member. Repeatable. What is named like a secret is passed "
        "on and not written down.",
    ),
    click.option(
        "--env-file",
        "env_files",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Give members the variables of a file of KEY=VALUE lines. Repeatable. They are not "
        "written down.",
    ),
    click.option(
        "--check/--no-check",
        default=True,
        show_default=True,
        help="Look first whether what the script imports is installed.",
    ),
)


def with_env(job: TrainingJob, variables: Mapping[str, str]) -> TrainingJob:
    """The job with more variables of every member."""
    if not variables:
        return job
    spec = job.spec.model_copy(update={"env": {**job.spec.env, **variables}})
    return job.model_copy(update={"spec": spec})
