"""What can be wrong with a record: the only errors that reading one raises."""

from __future__ import annotations


class UnreadableRecord(ValueError):
    """A document that is no record of a journal; the message says where, found and accepted."""


class NewerVersion(UnreadableRecord):
    """A record of a later version of the format than this one, which may mean something else."""

    def __init__(self, version: int, newest: int) -> None:
        self.version, self.newest = version, newest
        super().__init__(f"v: found {version}; accepted: up to {newest}")
