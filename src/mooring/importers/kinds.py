"""Which manifests there are, and who reads them. Importers register themselves by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mooring.importers.draft import JobDraft
from mooring.importers.tracked import Drop, Field
from mooring.spec.document import Document


@dataclass(frozen=True)
class Options:
    """What the user says beside the manifest.

    entrypoint: what the images run if the manifest does not say; name: the job's name instead of
    the manifest's; others: the other documents that were given, by kind and name.
    """

    entrypoint: tuple[str, ...] = ()
    name: str | None = None
    others: Mapping[tuple[str, str], Document] = field(default_factory=dict)
    drops: tuple[Drop, ...] = ()


Reader = Callable[[Field, Options], JobDraft]


@dataclass(frozen=True)
class ManifestKind:
    """A kind of manifest: `versions` are the values of `apiVersion` that its reader knows."""

    name: str
    versions: tuple[str, ...]
    project: str
    read: Reader


KINDS: dict[str, list[ManifestKind]] = {}


def manifest(name: str, *versions: str, project: str) -> Callable[[Reader], Reader]:
    """Register the reader of a kind."""

    def register(read: Reader) -> Reader:
        KINDS.setdefault(name, []).append(ManifestKind(name, versions, project, read))
        return read

    return register
