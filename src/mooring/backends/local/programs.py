"""What the members of a job will run on this machine, looked at before anything starts.

Each role's `python` becomes one interpreter, and a program whose imports are certain to fail there
is refused with the line that installs what is missing. Nothing of the program is run, and where
there is any doubt it starts.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from mooring import frameworks
from mooring.backends.local import interpreters
from mooring.backends.local.interpreters import Interpreter, InterpreterInfo
from mooring.backends.local.sources import ModuleSources, Scan, imports_of, scan
from mooring.frameworks.commands import PythonCommand, python_command, with_interpreter
from mooring.model.engine import Engine
from mooring.model.errors import NotInstalled
from mooring.model.member import Gang, Member
from mooring.spec import TrainingJob

#: The part of Mooring that a training script may import is needed in its Python too.
_SDK = Engine(module="mooring", package="mooring")


@dataclass(frozen=True)
class Missing:
    """Something that a program is certain to fail without, and the command that installs it."""

    sentence: str
    install: str


@dataclass(frozen=True)
class RoleProgram:
    """What the members of one role run.

    argv: their command with the interpreter in its place; environ: what the choice of the
    interpreter adds to their environment; hashes: the program's own files, as they are now;
    texts: the short texts in it, variables of the environment among them.
    """

    role: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    interpreter: Interpreter | None = None
    missing: tuple[Missing, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    texts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Programs:
    """The programs of a job, a role each."""

    roles: tuple[RoleProgram, ...]

    def put_into(self, gang: Gang) -> Gang:
        """The gang, its commands with their interpreters."""
        by_role = {each.role: each for each in self.roles}

        def member(old: Member) -> Member:
            program = by_role[old.id.role]
            return replace(old, argv=program.argv, env={**program.environ, **old.env})

        return replace(gang, members=tuple(member(each) for each in gang.members))

    @property
    def interpreter(self) -> Interpreter | None:
        """The first role's that has one: as a rule they are all the same."""
        return next((each.interpreter for each in self.roles if each.interpreter), None)

    @property
    def hashes(self) -> dict[str, str]:
        return {path: value for each in self.roles for path, value in each.hashes.items()}

    @property
    def texts(self) -> frozenset[str]:
        return frozenset(text for each in self.roles for text in each.texts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which Python is used; by role where they differ."""
        by_said: dict[str, list[str]] = {}
        for each in self.roles:
            if each.interpreter is not None:
                by_said.setdefault(each.interpreter.said, []).append(each.role)
        if len(by_said) == 1:
            return tuple(f"python: {said}" for said in by_said)
        return tuple(f"python of {', '.join(roles)}: {said}" for said, roles in by_said.items())

    @property
    def missing(self) -> tuple[Missing, ...]:
        return tuple(dict.fromkeys(each for role in self.roles for each in role.missing))

    def check(self) -> None:
        """Raises NotInstalled if a program is certain to fail."""
        if self.missing:
            raise NotInstalled(self.said_of_missing)

    @property
    def said_of_missing(self) -> str:
        sentences = "\n".join(each.sentence for each in self.missing)
        installs = " && ".join(dict.fromkeys(each.install for each in self.missing))
        return f"{sentences}\n  install:  {installs}"


def look_at(
    job: TrainingJob,
    gang: Gang,
    *,
    job_dir: Path,
    working_dir: Path,
    inherited: Mapping[str, str],
    source: str = "job",
    again: str = "",
) -> Programs:
    """The programs of `gang`. Raises BadInput if the job's `python` cannot be used.

    `inherited` is the environment under what the job sets; `again` is the path of the interpreter
    that an earlier run used, which is used once more if the job names none and it is still there.
    """
    given = job.spec.python
    chosen = interpreters.of_job(given, job_dir, source) if given else None
    if chosen is None and again and os.access(again, os.X_OK):
        chosen = replace(interpreters.of_job(again, job_dir, source), origin="as in that run")
    first = {member.id.role: member for member in reversed(gang.members)}
    looker = _Looker(frameworks.find(job.spec.framework, source).engine, working_dir, chosen)
    return Programs(
        tuple(looker.look(first[role], inherited) for role in gang.roles),
    )


@dataclass
class _Looker:
    engine: Engine | None
    cwd: Path
    chosen: Interpreter | None
    _answers: dict[tuple[object, ...], InterpreterInfo | None] = field(default_factory=dict)
    _scans: dict[PythonCommand, Scan] = field(default_factory=dict)

    @property
    def _wanted(self) -> list[Engine]:
        """What is asked for: the same of every role, because answers are kept."""
        return [engine for engine in (self.engine, _SDK) if engine is not None]

    def look(self, member: Member, inherited: Mapping[str, str]) -> RoleProgram:
        role, argv = member.id.role, member.argv
        environ = {**inherited, **member.env}
        command = python_command(argv)
        interpreter = self.chosen
        if interpreter is None and command is not None and command.is_open:
            interpreter = interpreters.in_shell(environ, command.interpreter)
        added: dict[str, str] = {}
        if interpreter is not None:
            argv = with_interpreter(argv, interpreter.path)
            added = interpreter.activation(environ)
        program = RoleProgram(role, argv, added)
        environ = {**inherited, **added, **member.env}
        missing = self._missing_programs(argv, environ, interpreter)
        if command is None:
            return self._other(program, interpreter, environ, missing)
        return self._python(program, command, interpreter, environ, missing)

    def _other(
        self,
        program: RoleProgram,
        interpreter: Interpreter | None,
        environ: Mapping[str, str],
        missing: list[Missing],
    ) -> RoleProgram:
        """A command that is not Python's, but may start the job's: `torchrun`, a shell."""
        sources = ModuleSources(self.cwd)
        sources.hash_words(program.argv)
        program = replace(program, missing=tuple(missing), hashes=sources.hashes)
        if interpreter is None or not program.argv:
            return program
        command = PythonCommand(0, interpreter.path)
        answer = interpreters.glance(interpreter, frozenset())
        answer = answer or self._ask(interpreter.path, command, self.cwd, environ)
        known = replace(interpreter, version=answer.version if answer else "")
        return replace(program, interpreter=known)

    def _python(
        self,
        program: RoleProgram,
        command: PythonCommand,
        interpreter: Interpreter | None,
        environ: Mapping[str, str],
        missing: list[Missing],
    ) -> RoleProgram:
        if command not in self._scans:
            self._scans[command] = scan(command, self.cwd)
        found = self._scans[command]
        path = program.argv[command.at]
        needed = found.names & {engine.module for engine in self._wanted}
        answer = None
        if command.is_open and interpreter is not None and "S" not in command.path_options:
            answer = interpreters.glance(interpreter, needed)
        if answer is None and (command.is_open or needed):
            answer = self._ask(path, command, found.folder, environ)
        if answer is not None and interpreter is not None and command.is_open:
            interpreter = replace(interpreter, version=answer.version)
        if answer is not None:
            gone = self._certain(command, needed - answer.modules)
            lacks = [engine for engine in self._wanted if engine.module in gone]
            where = interpreter.said if interpreter and command.is_open else path
            missing += _missing_modules(command, lacks, path, where, answer)
        return replace(
            program,
            interpreter=interpreter if command.is_open else None,
            missing=tuple(missing),
            hashes=found.hashes,
            texts=found.texts,
        )

    def _certain(self, command: PythonCommand, modules: frozenset[str]) -> frozenset[str]:
        """Those that the program is certain to import. Parsing takes its time: if need be only."""
        imports = imports_of(command, self.cwd) if modules else None
        return modules & imports.always if imports is not None else frozenset()

    def _ask(
        self,
        path: str,
        command: PythonCommand,
        folder: Path,
        environ: Mapping[str, str],
    ) -> InterpreterInfo | None:
        key = (path, command.path_options, folder, *_of_python(environ))
        if key not in self._answers:
            self._answers[key] = interpreters.ask(
                path,
                [*(engine.module for engine in self._wanted), "pip"],
                options=command.path_options,
                folder=str(folder),
                environ=environ,
                cwd=self.cwd,
            )
        return self._answers[key]

    def _missing_programs(
        self, argv: tuple[str, ...], environ: Mapping[str, str], interpreter: Interpreter | None
    ) -> list[Missing]:
        """A program of the engine's that the command begins with and the PATH does not have."""
        engine = self.engine
        if engine is None or not argv or argv[0] not in engine.programs:
            return []
        if shutil.which(argv[0], path=environ.get("PATH")):
            return []
        if engine.system_packages:
            install = system_line(engine)
        else:
            used = interpreter or interpreters.in_shell(environ)
            install = f"{shlex.quote(used.path)} -m pip install {engine.package}"
        return [Missing(f"{argv[0]} is not on the PATH", install)]


def _missing_modules(
    command: PythonCommand, lacks: list[Engine], path: str, where: str, answer: InterpreterInfo
) -> list[Missing]:
    if not lacks:
        return []
    modules = " and ".join(engine.module for engine in lacks)
    are = "is" if len(lacks) == 1 else "are"
    sentence = f"{command.said} imports {modules}, which {are} not in {where}"
    return [Missing(sentence, _pip_line(path, [engine.package for engine in lacks], answer))]


def _of_python(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What of an environment changes where an interpreter finds modules."""
    return tuple(sorted(pair for pair in environ.items() if pair[0].startswith("PYTHON")))


def system_line(engine: Engine) -> str:
    """What installs the engine's programs with the package manager that is here."""
    packages = engine.system_packages
    manager = next((name for name in packages if shutil.which(name)), next(iter(packages)))
    return f"{manager} install {packages[manager]}"


def _pip_line(interpreter: str, packages: list[str], answer: InterpreterInfo) -> str:
    python, package = shlex.quote(interpreter), " ".join(packages)
    if answer.is_managed:
        # pip refuses to change the operating system's own packages.
        return f"{python} -m venv .venv && . .venv/bin/activate && pip install {package}"
    if "pip" not in answer.modules and shutil.which("uv"):
        return f"uv pip install --python {python} {package}"
    if "pip" not in answer.modules:
        return f"{python} -m ensurepip && {python} -m pip install {package}"
    return f"{python} -m pip install {package}"


def program_name(argv: tuple[str, ...]) -> str:
    """What a command is about, for a name: `train` of `python train.py`, `prog` of `./prog`."""
    command = python_command(argv)
    if command is None:
        scripts = [word for word in argv if word.endswith(".py")]
        return PurePosixPath([*scripts, argv[0]][0]).stem
    if command.module is not None:
        return command.module.rpartition(".")[2]
    return PurePosixPath(command.script or "job").stem
