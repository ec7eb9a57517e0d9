"""Packages of Debian 12, downloaded and unpacked into a folder: nothing is installed.

apt runs with package lists and a cache of its own, so no root is needed and the machine's lists
stay as they are. The machine's proxy settings and keys apply.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"


class NotAvailable(Exception):
    """Debian's packages cannot be had here."""


@dataclass(frozen=True)
class Debian:
    """Debian's archive, through apt, with all of its state in `folder`."""

    folder: Path

    def refresh(self) -> None:
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise NotAvailable(f"this is no Debian: {tool} is not here")
        if not KEYRING.exists():
            raise NotAvailable(f"Debian's keys are not here: {KEYRING} (debian-archive-keyring)")
        for name in ("lists/partial", "cache/archives/partial", "downloads"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        # _apt, as whom apt downloads when it is root, may not write in a user's cache.
        signed = f"[signed-by={KEYRING}] {MIRROR} {SUITE} main"
        (self.folder / "sources.list").write_text(f"deb {signed}\ndeb-src {signed}\n")
        self._apt("update", "-q")

    def unpack(self, packages: Iterable[str], target: Path) -> None:
        """Binary packages, without their scripts, as they would lie under /."""
        self._apt("download", "-q", *packages)
        for package in packages:
            [archive] = self._downloads.glob(f"{package}_*.deb")
            subprocess.run(["dpkg-deb", "-x", archive, target], check=True)

    def unpack_source(self, package: str, target: Path) -> None:
        """A source package's original archive, without Debian's patches."""
        self._apt("source", "-q", "--download-only", "--tar-only", package)
        [archive] = self._downloads.glob(f"{package}_*.orig.tar.*")
        partial = target.with_name(f"{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(archive) as source:
            # Filters came with Python 3.11.4; Debian 12 has 3.11.2.
            source.extraction_filter = getattr(tarfile, "tar_filter", None)
            source.extractall(partial)
        [top] = partial.iterdir()
        target.parent.mkdir(parents=True, exist_ok=True)
        top.rename(target)
        partial.rmdir()

    @property
    def _downloads(self) -> Path:
        return self.folder / "downloads"

    def _apt(self, *arguments: str) -> None:
        options = {
            "Dir::Etc::SourceList": self.folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": self.folder / "lists",
            "Dir::Cache": self.folder / "cache",
            "APT::Sandbox::User": "root",
            "APT::Update::Error-Mode": "any",
        }
        command = ["apt-get", *(f"-o{key}={value}" for key, value in options.items()), *arguments]
        answer = subprocess.run(
            command, cwd=self._downloads, capture_output=True, text=True, check=False
        )
        if answer.returncode != 0:
            raise NotAvailable(f"apt-get {arguments[0]} failed:\n{answer.stderr.strip()}")
