"""The certificates of the webhook: made in memory, short-lived, each replica with its own.

No secret is stored and no replica needs another's key. Each makes an authority, signs one server
certificate with it and forgets the authority's key; it enters the authority's certificate into the
bundle that the API server trusts. Who dies leaves an entry that soon expires and is then dropped by
the next one who writes.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(hours=24)
#: Clocks of an API server and of a node may differ.
_CLOCK_SKEW = timedelta(minutes=5)
#: The one in use and the one that follows it.
_KEPT_FOR_EACH_REPLICA = 2
_MOST_KEPT = 40
_TRIES = 5
_LONGEST_COMMON_NAME = 64

#: The webhook's registration, and a merge patch of it that is False if it was changed meanwhile.
Read = Callable[[], Awaitable[Mapping[str, Any]]]
Patch = Callable[[dict[str, Any]], Awaitable[bool]]


@dataclass(frozen=True)
class ServingCertificate:
    """`ca_pem` is what callers must trust; `chain_pem` and `key_pem` are what the server shows."""

    ca_pem: bytes
    chain_pem: bytes
    key_pem: bytes
    not_before: datetime
    not_after: datetime

    @property
    def renew_at(self) -> datetime:
        """After two thirds of its life: there is time to try again."""
        return self.not_before + (self.not_after - self.not_before) * 2 / 3


def make_certificate(
    host: str, replica: str, now: datetime, lifetime: timedelta = LIFETIME
) -> ServingCertificate:
    """A fresh authority of this replica, and a certificate for `host` that it signed."""
    not_before, not_after = now - _CLOCK_SKEW, now + lifetime
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _common_name(replica))])
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), not_before, not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mooring webhook")])
    leaf = (
        _builder(name, ca_name, key.public_key(), not_before, not_after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    return ServingCertificate(
        _pem(ca),
        _pem(leaf),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        not_before,
        not_after,
    )


def bundle_with(bundle_pem: bytes, ca_pem: bytes, now: datetime) -> bytes:
    """The bundle with this authority, without those that have expired or been replaced.

    The same whichever replica writes it, so that replicas do not overwrite each other for ever.
    """
    own = x509.load_pem_x509_certificate(ca_pem)
    living = {
        certificate
        for certificate in _certificates(bundle_pem)
        if certificate.not_valid_after_utc > now
    } | {own}
    newest = sorted(
        living,
        key=lambda certificate: (certificate.not_valid_after_utc, _pem(certificate)),
        reverse=True,
    )
    kept: list[x509.Certificate] = []
    of_replica: dict[str, int] = {}
    for certificate in newest:
        replica = certificate.subject.rfc4514_string()
        of_replica[replica] = of_replica.get(replica, 0) + 1
        if certificate == own or of_replica[replica] <= _KEPT_FOR_EACH_REPLICA:
            kept.append(certificate)
    others = [certificate for certificate in kept if certificate != own][: _MOST_KEPT - 1]
    return b"".join(
        _pem(certificate) for certificate in kept if certificate == own or certificate in others
    )


async def publish(ca_pem: bytes, now: datetime, read: Read, patch: Patch) -> bool:
    """Enters the authority into the webhook's registration; False if others kept changing it.

    A merge patch with the version that was read: the server refuses it if another replica was
    quicker, and the bundle is then made anew from what is there.
    """
    for _ in range(_TRIES):
        registration = await read()
        webhooks = [dict(hook) for hook in registration.get("webhooks") or ()]
        changed = False
        for webhook in webhooks:
            client = dict(webhook.get("clientConfig") or {})
            before = base64.b64decode(client.get("caBundle") or "")
            after = bundle_with(before, ca_pem, now)
            changed = changed or after != before
            webhook["clientConfig"] = {**client, "caBundle": base64.b64encode(after).decode()}
        if not changed:
            return True
        version = registration["metadata"]["resourceVersion"]
        if await patch({"metadata": {"resourceVersion": version}, "webhooks": webhooks}):
            return True
    return False


def server_context(certificate: ServingCertificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    use(context, certificate)
    return context


def use(context: ssl.SSLContext, certificate: ServingCertificate) -> None:
    """From now on new connections see this certificate.

    Python reads certificates from files alone: from an unnamed one in memory where that exists.
    """
    content = certificate.key_pem + certificate.chain_pem
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(handle, content)
            context.load_cert_chain(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        context.load_cert_chain(file.name)


def _certificates(bundle_pem: bytes) -> list[x509.Certificate]:
    """Those that can be read: what somebody else put there must not stop the webhook."""
    end = b"-----END CERTIFICATE-----"
    found = []
    for block in bundle_pem.split(end)[:-1]:
        start = block.find(b"-----BEGIN CERTIFICATE-----")
        if start < 0:
            continue
        try:
            found.append(x509.load_pem_x509_certificate(block[start:] + end))
        except ValueError:
            continue
    return found


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    not_before: datetime,
    not_after: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(replica: str) -> str:
    return replica[:_LONGEST_COMMON_NAME] or "mooring"


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
