"""Starting, reaping and ending processes, down to the last descendant.

Each process gets a process group of its own, so that a script's `kill 0` ends the script and not
its launcher, and the parent-death signal, so that a launcher that is killed outright takes its
direct children along. The launcher is the reaper of all their descendants.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from . import linux, procfs
from .errors import NOT_EXECUTABLE, NOT_FOUND, LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence

# Python ignores these two, and an ignored signal stays ignored across exec.
_RESTORED = (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE))


class ChildProcess:
    """A started process with the read ends of its output; `code` is None until it was reaped."""

    def __init__(self, pid: int, out: int, err: int) -> None:
        self.pid = pid
        self.out = out
        self.err = err
        self.code: int | None = None


def adopt_orphans(notes: list[str]) -> None:
    """Descendants that lose their parent become this process's children."""
    if not linux.AVAILABLE:
        notes.append("daemonised processes are not followed: this system cannot hand them back")
        return
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)


def find_program(name: str, env: Mapping[str, str], cwd: str) -> str:
    """The path that exec will be given; the error tells apart missing from not executable."""
    if not os.path.isdir(cwd):
        raise LaunchError("working directory %s does not exist" % cwd)
    if not name:
        raise LaunchError("the command's first word is empty", NOT_FOUND)
    if "/" in name:
        candidates = [os.path.join(cwd, name)]
    else:
        folders = env.get("PATH", os.defpath).split(os.pathsep)
        candidates = [os.path.join(cwd, folder, name) for folder in folders]
    refused = None
    for path in candidates:
        if os.path.isfile(path):
            if os.access(path, os.X_OK):
                return path
            refused = refused or path
        elif "/" in name and os.path.isdir(path):
            refused = path
    if refused is not None:
        raise LaunchError("command %s is not executable" % refused, NOT_EXECUTABLE)
    where = "" if "/" in name else " on PATH"
    raise LaunchError("command '%s' not found%s" % (name, where), NOT_FOUND)


def spawn(
    path: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    session: bool = False,
    watcher: int | None = None,
    terminal: bool = False,
) -> ChildProcess:
    """Starts `path`, its output on pipes; with `session` it leads a session of its own.

    `watcher` is the process that may look at what the program does. With `terminal`, standard
    output is a terminal, to which programs write line by line.
    """
    arguments = [os.fsencode(word) for word in argv]
    environment = {os.fsencode(name): os.fsencode(text) for name, text in env.items()}
    launcher = os.getpid()
    fds: list[int] = []
    try:
        fds.extend(_raw_terminal() if terminal else os.pipe())
        for _ in range(2):
            fds.extend(os.pipe())
        pid = os.fork()
    except OSError as error:
        for fd in fds:
            os.close(fd)
        raise LaunchError("cannot start %s: %s" % (path, error.strerror)) from error
    out, out_child, err, err_child, trouble, trouble_child = fds
    if pid == 0:
        try:
            if linux.AVAILABLE:
                linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != launcher:
                    os._exit(1)
                if watcher is not None:
                    linux.allow_watcher(watcher)
            if session:
                os.setsid()
            else:
                os.setpgid(0, 0)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(out_child, 1)
            os.dup2(err_child, 2)
            os.chdir(cwd)
            restore_signals()
            os.execve(path, arguments, environment)
        except OSError as error:
            os.write(trouble_child, b"%d" % (error.errno or errno.EIO))
        finally:
            os._exit(NOT_FOUND)
    for fd in (out_child, err_child, trouble_child):
        os.close(fd)
    # Ends at exec, which closes the writing end.
    failed = os.read(trouble, 16)
    os.close(trouble)
    if failed:
        os.waitpid(pid, 0)
        os.close(out)
        os.close(err)
        raise _exec_error(path, int(failed))
    os.set_blocking(out, False)
    os.set_blocking(err, False)
    return ChildProcess(pid, out, err)


def restore_signals() -> None:
    """Before exec: what Python changed for itself is as programs expect it."""
    signal.set_wakeup_fd(-1)
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)


def _raw_terminal() -> tuple[int, int]:
    """(what is read, what the program writes to), which carries bytes as they are."""
    import tty

    reading, writing = os.openpty()
    tty.setraw(writing)
    return reading, writing


def read_output(fd: int, most_bytes: int) -> bytes:
    """What there is; empty at the end. Raises BlockingIOError if there is nothing yet."""
    try:
        return os.read(fd, most_bytes)
    except BlockingIOError:
        raise
    except OSError:
        return b""  # how a terminal ends


def reap() -> list[tuple[int, int]]:
    """(pid, exit code as a shell sees it) of every child that has ended, adopted ones included."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if os.WIFSIGNALED(status):
            ended.append((pid, 128 + os.WTERMSIG(status)))
        else:
            ended.append((pid, os.WEXITSTATUS(status)))


def below(roots: Sequence[int] | None = None) -> list[int]:
    """Live descendants: of this process, or of `roots` with the roots themselves."""
    if not procfs.SUPPORTED:
        return list(roots or ())
    if roots is None:
        found = procfs.descendants(os.getpid())
    else:
        found = [pid for root in roots for pid in [root, *procfs.descendants(root)]]
    return [pid for pid in found if not procfs.is_zombie(pid)]


def signal_all(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        try:
            if procfs.SUPPORTED:
                os.kill(pid, number)
            else:
                os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def kill_all(roots: Sequence[int] | None = None, timeout_s: float = 5.0) -> bool:
    """SIGKILL again and again until nothing is left, because a process can fork meanwhile.

    False if something outlived the time-out (a process stuck in the kernel). Does not reap: a
    killed child stays a zombie for the loop to account for.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        alive = below(roots)
        if not alive:
            return True
        signal_all(alive, signal.SIGKILL)
        if not procfs.SUPPORTED:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)


def _exec_error(path: str, number: int) -> LaunchError:
    if number == errno.ENOENT:
        return LaunchError(
            "command %s: the interpreter named in its first line does not exist" % path, NOT_FOUND
        )
    if number == errno.ENOEXEC:
        return LaunchError(
            "command %s: neither a program for this machine nor a script with a #! line" % path,
            NOT_EXECUTABLE,
        )
    return LaunchError("command %s: %s" % (path, os.strerror(number)), NOT_EXECUTABLE)
