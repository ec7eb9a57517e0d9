"""Container images as files, made without a container engine.

An image here is small: directories, a few files of /etc, the variables of its processes. The
host's system, Python and virtual environment come as read-only mounts that the runtime adds to
every container (`host_mounts`), at the paths that they have on the host. For a process in a
container this is the same as an image with those files in it; for the tests it saves copying some
gigabytes. No pod says `hostPath`, so pods stay within the `restricted` Pod Security Standard.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mooring.version import VERSION

REPOSITORY = Path(__file__).resolve().parents[3]
PAUSE = "mooring.test/pause:1"
PYTHON = "mooring.test/python:1"
MOORING = f"mooring:{VERSION}"
USER = 1000
GROUP = 1000
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LINKED = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")
SYSTEM = (
    "/usr",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/openmpi",
    "/etc/java-17-openjdk",
)


@dataclass(frozen=True)
class Image:
    """One layer. `files` maps a path in the image to a file or folder of this machine."""

    name: str
    files: Mapping[str, Path] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[str] = ()
    entrypoint: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = f"{USER}:{GROUP}"

    def write(self, target: Path) -> Path:
        """As `docker save` writes it; containerd imports that."""
        layer = target.with_suffix(".layer")
        self._write_layer(layer)
        digest = _sha256(layer)
        config = {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {
                "User": self.user,
                "Entrypoint": list(self.entrypoint),
                "Env": [f"{key}={value}" for key, value in self.env.items()],
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created_by": "mooring"}],
        }
        content = json.dumps(config).encode()
        described = f"{hashlib.sha256(content).hexdigest()}.json"
        manifest = [{"Config": described, "RepoTags": [self.name], "Layers": ["layer.tar"]}]
        with tarfile.open(target, "w") as archive:
            _add_bytes(archive, described, content)
            archive.add(layer, "layer.tar")
            _add_bytes(archive, "manifest.json", json.dumps(manifest).encode())
        layer.unlink()
        return target

    def _write_layer(self, path: Path) -> None:
        with tarfile.open(path, "w") as layer:
            for name in ("dev", "etc", "proc", "sys", *self.folders):
                _add_folder(layer, name, 0o755)
            _add_folder(layer, "tmp", 0o1777)
            for name, target in self.links.items():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                layer.addfile(entry)
            for name, text in self.texts.items():
                _add_bytes(layer, name, text.encode())
            for name, source in self.files.items():
                layer.add(source, name, filter=_readable)


def pause(program: Path) -> Image:
    """What holds a pod's namespaces."""
    return Image(PAUSE, files={"pause": program}, entrypoint=["/pause"], user="65535:65535")


def mooring(work: Path) -> Image:
    """What images/Dockerfile builds, on the host's Python instead of the one of an image."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", work],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    [wheel] = work.glob("*.whl")
    root = work / "root"
    subprocess.run([sys.executable, REPOSITORY / "images" / "fill.py", wheel, root], check=True)
    base = python()
    paths = {"PATH": f"/opt/mooring/bin:{base.env['PATH']}", "PYTHONPATH": "/opt/mooring/lib"}
    return replace(
        base,
        name=MOORING,
        files={"opt": root / "opt"},
        entrypoint=["moor"],
        env={**base.env, **paths},
        user="65532:65532",
    )


def python() -> Image:
    """The host's system, Python and virtual environment, for a user who is not root."""
    root = Path("/")
    links = {name: str((root / name).readlink()) for name in LINKED if (root / name).is_symlink()}
    return Image(
        PYTHON,
        links=links,
        texts={
            "etc/passwd": f"root:x:0:0::/root:/bin/sh\nmooring:x:{USER}:{GROUP}::/tmp:/bin/sh\n",
            "etc/group": f"root:x:0:\nmooring:x:{GROUP}:\n",
            "etc/nsswitch.conf": "hosts: files dns\n",
        },
        env={
            "PATH": f"{Path(sys.prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": "/tmp",
            "PYTHONPATH": str(REPOSITORY / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )


def host_mounts() -> list[Path]:
    """What every container sees of the host, read-only."""
    unlinked = [f"/{name}" for name in LINKED if not Path("/", name).is_symlink()]
    wanted = [*SYSTEM, *unlinked, sys.base_prefix, sys.prefix, str(REPOSITORY)]
    found = [Path(each) for each in dict.fromkeys(wanted) if Path(each).exists()]
    return [path for path in found if not any(other in path.parents for other in found)]


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Everybody may read what is in an image, whatever the umask was here."""
    entry.mode |= 0o555 if entry.isdir() or entry.mode & 0o100 else 0o444
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _add_folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
