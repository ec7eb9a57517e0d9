"""The group of commands. Each is imported only when it is called: `moor --help` stays quick."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback

import click

from mooring.cli.say import say
from mooring.version import VERSION

#: name -> (module:attribute, what the list of commands says). In the order of a first session.
_COMMANDS = {
    "init": ("mooring.cli.jobs:init", "Write a commented starter job."),
    "import": ("mooring.cli.imports:import_", "Turn manifests of other operators into jobs."),
    "validate": ("mooring.cli.jobs:validate", "Check job files."),
    "plan": ("mooring.cli.plan:plan", "Show where each member would go, and why. Starts nothing."),
    "simulate": ("mooring.cli.simulate:simulate", "Run a workload in virtual time."),
    "explain": ("mooring.cli.explain:explain", "Explain each node's answer, and what would help."),
    "profile": ("mooring.cli.profile:profile", "Show a profile, or write it for kube-scheduler."),
    "run": ("mooring.cli.run:run", "Run a job on this machine until it ends."),
    "serve": ("mooring.cli.serve:serve", "Run this machine's queue."),
    "attach": ("mooring.cli.attach:attach", "Show a run that goes on elsewhere."),
    "rerun": ("mooring.cli.rerun:rerun", "Run the job of an earlier run once more."),
    "ps": ("mooring.cli.ps:ps", "List runs."),
    "logs": ("mooring.cli.logs:logs", "Print what members printed, merged."),
    "report": ("mooring.cli.runs:report", "Show the figures of a run."),
    "export": ("mooring.cli.export:export", "Write a run's figures for other tools."),
    "doctor": ("mooring.cli.doctor:doctor", "Say why a run is slow, and what to do about it."),
    "compare": ("mooring.cli.compare:compare", "Say what differs between two runs or two logs."),
    "variables": ("mooring.cli.variables:variables", "Show what parameter servers hold and move."),
    "stop": ("mooring.cli.runs:stop", "Stop a run."),
    "pin": ("mooring.cli.pin:pin", "Keep a run, or let it go."),
    "clean": ("mooring.cli.clean:clean", "Remove what killed runs left, or old runs."),
    "install": ("mooring.cli.install:install", "Print the manifests that set up a cluster."),
    "submit": ("mooring.cli.submit:submit", "Send jobs to this machine's queue or to a cluster."),
    "render": ("mooring.cli.render:render", "Print the objects that a submit would lead to."),
    "operator": ("mooring.cli.operator:operator", "Run the operator of a Kubernetes cluster."),
    "schema": ("mooring.cli.jobs:schema", "Print the JSON schema of job files."),
    "completion": ("mooring.cli.jobs:completion", "Print the shell's completion script."),
}
_GARBAGE_THRESHOLDS = (100_000, 20, 20)
#: Of the extra that everything with a cluster needs: modules, and the packages that have them.
_OF_KUBERNETES = {
    "aiohttp": "aiohttp",
    "cryptography": "cryptography",
    "google": "protobuf",
    "orjson": "orjson",
    "prometheus_client": "prometheus-client",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="moor")
def cli() -> None:
    """Run distributed training jobs, see where the time goes, make them fast.

    Exit codes: 0 done, 1 the job failed, 2 bad input, 130 interrupted.
    """


def main() -> None:
    """Entry point: every error that a user can cause ends in one sentence and an exit code."""
    _open_standard_streams()
    # A command makes most of its objects once, while it imports. Looking through them again and
    # again for garbage takes a tenth of the time of a short one.
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    try:
        code = cli.main(prog_name="moor", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        say(_shown(error), err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        say("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # `moor logs | head`: the reader has gone. Keep Python from complaining at exit.
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        sys.exit(_explain(error))
    finally:
        # The process ends: nobody needs to look for garbage once more.
        gc.freeze()


def _shown(error: click.ClickException) -> str:
    """What click would print of a wrong option or argument, whose text may come from anywhere."""
    message = f"Error: {error.format_message()}"
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    usage, names = context.get_usage(), context.help_option_names
    hint = f"\nTry '{context.command_path} {names[-1]}' for help.\n" if names else ""
    return f"{usage}{hint}\n{message}"


def _open_standard_streams() -> None:
    """Where the caller closed one (`>&-`), what is opened next must not take its place."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            while os.open(os.devnull, os.O_RDWR) < fd:
                pass
            setattr(sys, name, os.fdopen(fd, "r" if fd == 0 else "w"))


def _explain(error: Exception) -> int:
    from mooring.app import Refused, StoppedBefore
    from mooring.model.errors import BadInput, MooringError, NotInstalled

    if isinstance(error, BadInput):
        for problem in error.problems:
            say(f"{error.source}: {problem}", err=True)
        return 2
    if isinstance(error, Refused):
        say(f"not placed: {error}", err=True)
        return 2
    if isinstance(error, StoppedBefore):
        say(f"stopped: {error}", err=True)
        return 130
    if isinstance(error, NotInstalled):
        say(f"not installed: {error}", err=True)
        return 2
    if isinstance(error, MooringError):
        say(f"failed: {error}", err=True)
        return 1
    if isinstance(error, ModuleNotFoundError):
        package = _OF_KUBERNETES.get((error.name or "").partition(".")[0])
        if package:
            say(f"failed: no {package} here: pip install 'mooring[kubernetes]'", err=True)
            return 1
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        say(f"failed: {error.strerror or error}{where}", err=True)
        return 1
    # A defect of ours. Its message may hold text from outside, as every other one.
    say("".join(traceback.format_exception(error)), err=True, nl=False)
    return 1
