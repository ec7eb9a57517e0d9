"""A job's files on their way to its pods: one archive in a config map that belongs to the job."""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
from pathlib import Path

from mooring.bodies.kubernetes import names
from mooring.bodies.kubernetes.pod import Owner
from mooring.kubeapi.document import Json
from mooring.model.errors import BadInput
from mooring.spec import TrainingJob

#: An object of the API server may have 1 MiB; base64 takes a third more than the archive.
_MOST_BYTES = 700_000


def pack(job: TrainingJob, job_dir: Path, source: str) -> bytes | None:
    """The archive of `spec.files`, the same bytes for the same files; None if there are none."""
    if not job.spec.files:
        return None
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for index, name in enumerate(job.spec.files):
            path = job_dir / name
            if not path.exists():
                found = f"{name!r}, which does not exist"
                raise BadInput.at(source, f"spec.files[{index}]", found, "a file or folder")
            archive.add(path, arcname=name, filter=_plain)
    data = buffer.getvalue()
    if len(data) > _MOST_BYTES:
        raise BadInput.at(
            source,
            "spec.files",
            f"{len(data)} bytes when packed",
            f"at most {_MOST_BYTES} on a cluster: put larger ones into the image or a volume",
        )
    return data


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


def _plain(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Names, contents and whether it may be executed; nothing of this machine."""
    if "__pycache__" in item.name or not (item.isfile() or item.isdir()):
        return None
    item.uid = item.gid = item.mtime = 0
    item.uname = item.gname = ""
    item.mode = 0o755 if item.isdir() or item.mode & 0o100 else 0o644
    return item
