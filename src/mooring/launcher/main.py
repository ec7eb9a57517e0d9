"""The launcher's commands: `run CONTRACT`, `pod` in a container, `rsh HOST COMMAND...` for ssh,
`rank COMMAND...` to start a rank in its own worker, `look` to say what this place allows,
`fork-server FD PADDING` to make launchers by forking.
"""

from __future__ import annotations

import os
import sys

from .errors import LAUNCHER_FAILED, LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .journal import AttemptJournal

USAGE = "usage: launcher run CONTRACT.json | pod | rsh HOST COMMAND... | look"


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if len(words) == 2 and words[0] == "run":
        return _run(words[1])
    if words == ["pod"]:
        return _run(None)
    if len(words) >= 3 and words[0] == "rsh":
        from . import rsh

        return rsh.main(words[1], words[2:])
    if len(words) >= 2 and words[0] == "rank":
        from . import rank

        return rank.main(words[1:])
    if words == ["look"]:
        from . import look

        return look.main()
    if len(words) == 3 and words[0] == "fork-server" and words[1].isdigit():
        from . import fork_server

        return fork_server.main(int(words[1]))
    _say(USAGE)
    return LAUNCHER_FAILED


def _run(path: str | None) -> int:
    """Without a path, the contract of the pod that this runs in."""
    from .contract import Contract, read_document

    journal = None
    try:
        if path is None:
            from . import pod

            document = pod.read_document()
            journal = _journal(document)
            pod.unpack(document)
        else:
            document = read_document(path)
            journal = _journal(document)
        contract = Contract(document)
        if journal is None:
            raise LaunchError("contract: sample_path %s cannot be opened" % contract.sample_path)
        from .run import MemberAttempt

        code = MemberAttempt(contract, journal).run()
        if journal.trouble:
            _say("mooring: " + journal.trouble)
        return code
    except LaunchError as error:
        return _give_up(journal, error.reason, error.exit_code)
    except Exception as error:
        import traceback

        traceback.print_exc()
        reason = "the launcher failed: %s: %s" % (type(error).__name__, error)
        return _give_up(journal, reason, LAUNCHER_FAILED)


def _journal(document: dict[str, Any]) -> AttemptJournal | None:
    """Opened before the contract is checked, so that its errors can be written too."""
    from .journal import AttemptJournal

    numbers = [document.get(key, 0) for key in ("epoch", "attempt")]
    epoch, attempt = (number if isinstance(number, int) else 0 for number in numbers)
    try:
        return AttemptJournal(str(document.get("sample_path", "")), epoch, attempt)
    except (OSError, ValueError):
        return None


def _give_up(journal: AttemptJournal | None, reason: str, code: int) -> int:
    _say("mooring: " + reason)
    if journal is not None:
        journal.write("error", {"reason": reason})
        fields = {"code": code, "cause": "gave-up", "reason": reason, "codes": []}
        journal.write("exit", fields)
    return code


def _say(text: str) -> None:
    try:
        os.write(2, os.fsencode(text) + b"\n")
    except OSError:
        pass
