"""What the reader of a pod template is told by the importer of its kind, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.importers.draft import JobDraft
from mooring.importers.shell import Expression, Word, joined, peer
from mooring.importers.tracked import Field


@dataclass(frozen=True)
class PeerNames:
    """Host names that the operator gives to pods, found in texts and replaced by where the member
    really is. Groups of the pattern: see `find_peer`."""

    pattern: re.Pattern[str]
    find_peer: Mapping[str, str]
    pods_per_job: Mapping[str, int] = field(default_factory=dict)

    def replace(self, text: str) -> Word:
        parts: list[str | Expression] = []
        end = 0
        for match in self.pattern.finditer(text):
            groups = match.groupdict()
            role = (
                self.find_peer[groups["role"]]
                if "role" in groups
                else next(iter(self.find_peer.values()))
            )
            index = int(groups["index"]) + self.pods_per_job.get(role, 0) * int(
                groups.get("job") or 0
            )
            parts += [text[end : match.start()], peer(role, index)]
            end = match.end()
        parts.append(text[end:])
        return joined(parts)


@dataclass(frozen=True)
class Pod:
    """One role's template, and what the importer of its kind knows about it.

    exports: variables that the operator sets and the framework's adapter does not;
    given: further variables that are there at run time; framework_ports: ports that Mooring
    chooses itself; entrypoint: what the images run if the manifest does not say.
    """

    draft: JobDraft
    role: str
    container_names: tuple[str, ...] = ()
    exports: Mapping[str, Word] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    framework_ports: frozenset[str] = frozenset()
    peers: PeerNames | None = None
    entrypoint: tuple[str, ...] = ()
    restart: bool = False
    role_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def at(self, *below: str) -> tuple[str | int, ...]:
        return self.draft.role(self.role, *below)

    def on_kubernetes(self, *below: str) -> tuple[str | int, ...]:
        return self.at("kubernetes", *below)


@dataclass(frozen=True)
class ContainerProgram:
    """What the container runs: the words of its command, and variables for the shell to set."""

    argv: tuple[Word, ...]
    exports: Mapping[str, Word]
    sources: tuple[Field, ...]
    fields: tuple[Field | None, ...] = ()
    """Where each word stands in the manifest; None if it comes from elsewhere."""

    def texts(self) -> list[str]:
        """The words, those parts left out that only the shell knows."""
        return ["".join(part if isinstance(part, str) else "" for part in one) for one in self.argv]
