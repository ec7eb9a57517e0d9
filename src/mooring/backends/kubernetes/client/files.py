"""A job's files on their way to its pods: one archive in a config map that belongs to the job.

A link is packed as the file that it leads to, if that is in the job's folder: what lies outside was
not given by whoever wrote `files`. What is left out is said.
"""

from __future__ import annotations

import base64
import gzip
import io
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mooring.backends.kubernetes.api.document import Json
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pod_manifest import Owner
from mooring.model.errors import BadInput
from mooring.spec import TrainingJob

#: An object of the API server may have 1 MiB; base64 takes a third more than the archive.
_MOST_BYTES = 700_000
#: Packed, even zeros take a thousandth: no folder within the limit has more.
_MOST_UNPACKED_BYTES = 256 << 20
_MOST_FILES = 20_000
_DEEPEST = 60


@dataclass(frozen=True)
class Packed:
    """The archive, the same bytes for the same files; `left_out`: a sentence for each file."""

    archive: bytes | None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Item:
    """`path` is what is read for `name`; why: it is left out, and for this reason."""

    name: str
    path: Path
    why: str = ""


def pack(job: TrainingJob, job_dir: Path, source: str) -> Packed:
    """Pack `spec.files`. Raises BadInput for a name that is missing or leads out of the folder."""
    if not job.spec.files:
        return Packed(None)
    home = job_dir.resolve()
    buffer = io.BytesIO()
    left_out: list[str] = []
    count = total_bytes = 0
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for index, name in enumerate(job.spec.files):
            at = f"spec.files[{index}]"
            path = job_dir / name
            if not path.exists():
                found = f"{name!r}, which does not exist"
                raise BadInput.at(source, at, found, "a file or folder")
            if not path.resolve().is_relative_to(home):
                found = f"{name!r}, a link that leads out of the job's folder"
                raise BadInput.at(source, at, found, "a file or folder in the job's folder")
            for item in _items(name, path, home):
                if item.why:
                    left_out.append(f"{item.name} is left out: {item.why}")
                    continue
                count, total_bytes = count + 1, total_bytes + _add(archive, item)
                if count > _MOST_FILES or total_bytes > _MOST_UNPACKED_BYTES:
                    raise _too_large(source, f"more than {total_bytes} bytes in {count} files")
    data = buffer.getvalue()
    if len(data) > _MOST_BYTES:
        raise _too_large(source, f"{len(data)} bytes when packed")
    return Packed(data, tuple(left_out))


def _too_large(source: str, found: str) -> BadInput:
    accepted = f"at most {_MOST_BYTES} on a cluster: put larger ones into the image or a volume"
    return BadInput.at(source, "spec.files", found, accepted)


def _items(name: str, path: Path, home: Path, above: tuple[Path, ...] = ()) -> Iterator[_Item]:
    """A file, or a folder and all that is in it, by their names in the archive.

    above: the real folders on the way to it.
    """
    if Path(name).name == "__pycache__":
        return
    real = path.resolve()
    try:
        mode = real.stat().st_mode
    except OSError:
        yield _Item(name, path, "a link to nothing")
        return
    if not real.is_relative_to(home):
        yield _Item(name, path, "a link that leads out of the job's folder")
    elif stat.S_ISREG(mode):
        yield _Item(name, real)
    elif not stat.S_ISDIR(mode):
        yield _Item(name, path, "neither a file nor a folder")
    elif real in above or (path.is_symlink() and path.parent.resolve().is_relative_to(real)):
        yield _Item(name, path, "a link to a folder that it is in")
    elif len(above) == _DEEPEST:
        yield _Item(name, path, f"more than {_DEEPEST} folders deep")
    else:
        yield _Item(name, real)
        for below in sorted(path.iterdir()):
            yield from _items(f"{name}/{below.name}", below, home, (*above, real))


def _add(archive: tarfile.TarFile, item: _Item) -> int:
    """Names, contents and whether it may be executed; nothing of this machine."""
    told = item.path.stat()
    entry = tarfile.TarInfo(item.name)
    is_folder = item.path.is_dir()
    entry.mode = 0o755 if is_folder or told.st_mode & 0o100 else 0o644
    if is_folder:
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
        return 0
    entry.size = told.st_size
    with item.path.open("rb") as file:
        archive.addfile(entry, file)
    return entry.size


def config_map(owner: Owner, archive: bytes) -> dict[str, Json]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{owner.name}-files",
            "namespace": owner.namespace,
            "labels": {names.MANAGED_BY: names.MANAGER, names.JOB: owner.name},
            "ownerReferences": [owner.reference()],
        },
        "binaryData": {"files.tgz": base64.b64encode(archive).decode()},
    }
