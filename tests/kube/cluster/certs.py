"""A certificate authority of the cluster's own, by the `openssl` command."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

EC_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
DAYS = "30"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """Signs servers and users; one authority for both, as kubeadm's clusters have."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Authority:
        folder.mkdir()
        made = cls(folder)
        subject = ("-subj", "/CN=mooring-test", "-days", DAYS)
        extension = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        files = ("-keyout", made.pair.key, "-out", made.pair.certificate)
        _openssl("req", "-x509", *EC_KEY, *files, *subject, *extension)
        key = made.service_accounts.key
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        _openssl("ec", "-in", key, "-pubout", "-out", made.service_accounts.certificate)
        return made

    @property
    def pair(self) -> Pair:
        return Pair(self.folder / "ca.crt", self.folder / "ca.key")

    @property
    def service_accounts(self) -> Pair:
        """The key that signs tokens, and its public half."""
        return Pair(self.folder / "sa.pub", self.folder / "sa.key")

    def server(self, name: str, addresses: Iterable[str], names: Iterable[str]) -> Pair:
        alternatives = [f"IP:{each}" for each in addresses] + [f"DNS:{each}" for each in names]
        return self._sign(f"/CN={name}", "serverAuth", f"subjectAltName={','.join(alternatives)}")

    def user(self, name: str, groups: Iterable[str] = ()) -> Pair:
        """A client certificate: Kubernetes reads the user's name and groups from it."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={name}"
        return self._sign(subject, "clientAuth")

    def _sign(self, subject: str, usage: str, *extensions: str) -> Pair:
        stem = self.folder / secrets.token_hex(6)
        made = Pair(stem.with_suffix(".crt"), stem.with_suffix(".key"))
        request, wanted = stem.with_suffix(".csr"), stem.with_suffix(".ext")
        lines = (
            f"extendedKeyUsage={usage}",
            "keyUsage=digitalSignature",
            "authorityKeyIdentifier=keyid",
            "subjectKeyIdentifier=hash",
            *extensions,
        )
        wanted.write_text("\n".join(lines) + "\n")
        _openssl("req", "-new", *EC_KEY, "-keyout", made.key, "-subj", subject, "-out", request)
        _openssl(
            *("x509", "-req", "-in", request, "-days", DAYS, "-extfile", wanted),
            *("-CA", self.pair.certificate, "-CAkey", self.pair.key),
            *("-set_serial", f"0x{secrets.token_hex(8)}", "-out", made.certificate),
        )
        return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
