"""The one way a launcher gives up: a sentence for the user, and an exit code for its kind."""

from __future__ import annotations

PEERS_UNRESOLVED = 124
LAUNCHER_FAILED = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127


class LaunchError(Exception):
    """Nothing was started, or all of it was ended; `reason` is one sentence for the user."""

    def __init__(self, reason: str, exit_code: int = LAUNCHER_FAILED) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code
