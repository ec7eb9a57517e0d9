"""Certificates of the webhook: who trusts them, when they are renewed, what a bundle keeps."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509

from mooring.operator.certificates import bundle_with, make_certificate, publish
from mooring.operator.serving import open_port, serve_webhook

NOW = datetime(2030, 5, 1, 12, 0, tzinfo=UTC)
HOST = "mooring-webhook.mooring-system.svc"


def authority(replica: str, now: datetime = NOW) -> bytes:
    return make_certificate(HOST, replica, now).ca_pem


def names(bundle: bytes) -> list[str]:
    certificates = x509.load_pem_x509_certificates(bundle)
    return sorted(one.subject.rfc4514_string().removeprefix("CN=") for one in certificates)


def test_a_certificate_is_for_the_service_short_lived_and_signed_by_its_authority() -> None:
    made = make_certificate(HOST, "operator-a", NOW)
    leaf, ca = (x509.load_pem_x509_certificate(pem) for pem in (made.chain_pem, made.ca_pem))
    leaf.verify_directly_issued_by(ca)
    alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.DNSName) == [HOST]
    assert leaf.not_valid_after_utc == NOW + timedelta(hours=24)
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    # 24 h and 5 minutes of skew, two thirds of it: 16 h 3 m 20 s after 5 minutes before now
    assert made.renew_at == NOW + timedelta(hours=15, minutes=58, seconds=20)


def test_two_replicas_share_nothing() -> None:
    one, other = make_certificate(HOST, "a", NOW), make_certificate(HOST, "a", NOW)
    assert one.ca_pem != other.ca_pem and one.key_pem != other.key_pem


def test_a_bundle_holds_every_living_replica() -> None:
    bundle = bundle_with(bundle_with(b"", authority("a"), NOW), authority("b"), NOW)
    assert names(bundle) == ["a", "b"]


def test_expired_authorities_leave_the_bundle() -> None:
    bundle = bundle_with(b"", authority("dead", NOW - timedelta(hours=25)), NOW)
    assert names(bundle_with(bundle, authority("b"), NOW)) == ["b"]


def test_a_replica_that_restarts_keeps_its_last_two() -> None:
    bundle = bundle_with(b"", authority("other"), NOW)
    made = [authority("loop", NOW + timedelta(minutes=minute)) for minute in range(5)]
    for pem in made:
        bundle = bundle_with(bundle, pem, NOW)
    assert names(bundle) == ["loop", "loop", "other"]
    assert made[-1] in bundle and made[-2] in bundle


def test_many_replicas_do_not_fill_the_registration() -> None:
    bundle = b""
    for number in range(60):
        bundle = bundle_with(bundle, authority(f"r{number}"), NOW)
    assert len(names(bundle)) == 40
    assert "r59" in names(bundle)


@pytest.mark.parametrize("rubbish", [b"hello", b"-----BEGIN CERTIFICATE-----\nAAAA\n" * 2])
def test_what_others_left_in_the_bundle_does_no_harm(rubbish: bytes) -> None:
    rubbish += b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert names(bundle_with(rubbish, authority("a"), NOW)) == ["a"]


def test_a_bundle_that_needs_no_change_is_the_same_to_the_byte() -> None:
    a, b = authority("a"), authority("b")
    bundle = bundle_with(bundle_with(b"", a, NOW), b, NOW)
    assert bundle_with(bundle, a, NOW) == bundle
    assert bundle_with(bundle, b, NOW) == bundle


class Registration:
    """The registration as an API server keeps it: a patch of an old version is refused."""

    def __init__(self, webhooks: int = 1) -> None:
        self.version = 1
        self.patches = 0
        self.webhooks: list[dict[str, Any]] = [
            {"name": f"w{number}", "clientConfig": {"service": {"name": "s"}}, "rules": []}
            for number in range(webhooks)
        ]
        #: Someone else's change, before each of the next patches.
        self.interfering: list[bytes] = []

    async def read(self) -> Mapping[str, Any]:
        return {"metadata": {"resourceVersion": str(self.version)}, "webhooks": self.webhooks}

    async def patch(self, body: dict[str, Any]) -> bool:
        if self.interfering:
            other = bundle_with(self.bundle(), self.interfering.pop(), NOW)
            self.webhooks[0]["clientConfig"]["caBundle"] = base64.b64encode(other).decode()
            self.version += 1
        if body["metadata"]["resourceVersion"] != str(self.version):
            return False
        self.webhooks, self.version = body["webhooks"], self.version + 1
        self.patches += 1
        return True

    def bundle(self, index: int = 0) -> bytes:
        return base64.b64decode(self.webhooks[index]["clientConfig"].get("caBundle", ""))


def test_publishing_enters_the_authority_once_and_leaves_the_rest_alone() -> None:
    kept = Registration(webhooks=2)

    async def twice() -> None:
        for _ in range(2):
            assert await publish(ca, NOW, kept.read, kept.patch)

    ca = authority("a")
    asyncio.run(twice())
    assert kept.patches == 1
    assert names(kept.bundle(0)) == names(kept.bundle(1)) == ["a"]
    assert kept.webhooks[0]["clientConfig"]["service"] == {"name": "s"}
    assert kept.webhooks[0]["rules"] == []


def test_replicas_that_publish_at_once_do_not_lose_each_others_authority() -> None:
    kept = Registration()
    kept.interfering = [authority("b"), authority("c")]
    assert asyncio.run(publish(authority("a"), NOW, kept.read, kept.patch))
    assert names(kept.bundle()) == ["a", "b", "c"]


def test_publishing_gives_up_when_others_never_stop() -> None:
    kept = Registration()
    kept.interfering = [authority(f"r{number}") for number in range(9)]
    assert not asyncio.run(publish(authority("a"), NOW, kept.read, kept.patch))


def test_a_caller_who_trusts_the_bundle_reaches_the_webhook_also_after_a_renewal() -> None:
    """A real TLS server and client; certificates that are due at once. Every renewal stands still
    before it is entered, until the certificate before it has been seen.
    """
    kept = Registration()

    async def scenario() -> set[bytes]:
        arrived: asyncio.Queue[None] = asyncio.Queue()
        allowed = asyncio.Semaphore(0)

        async def patch(body: dict[str, Any]) -> bool:
            arrived.put_nowait(None)
            await allowed.acquire()
            return await kept.patch(body)

        listener = open_port(0)
        serving = asyncio.create_task(
            serve_webhook(
                web.Application(),
                listener=listener,
                host_name=HOST,
                replica="a",
                read=kept.read,
                patch=patch,
                # With 5 minutes of skew, a life of a minute is two thirds over at the start.
                lifetime=timedelta(minutes=1),
                look_every_s=0.0,
                heard_after_s=0.0,
            )
        )
        seen: set[bytes] = set()
        try:
            async with asyncio.timeout(20):
                await arrived.get()
                for _ in range(3):
                    allowed.release()
                    await arrived.get()
                    seen.add(await shown(listener.getsockname()[1], kept.bundle()))
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        return seen

    assert len(asyncio.run(scenario())) == 3


async def shown(port: int, bundle: bytes) -> bytes:
    """The certificate of a server that answers to HOST and is trusted by the bundle alone."""
    trust = ssl.create_default_context(cadata=bundle.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=HOST)
    try:
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert isinstance(certificate, bytes)
        return certificate
    finally:
        writer.close()


def test_a_registration_that_cannot_be_read_does_not_stop_the_server() -> None:
    tried: list[str] = []

    async def refuse(*_: object) -> Any:
        tried.append("read")
        raise OSError("no such server")

    async def scenario() -> None:
        serving = asyncio.create_task(
            serve_webhook(
                web.Application(),
                listener=open_port(0),
                host_name=HOST,
                replica="a",
                read=refuse,
                patch=refuse,
                look_every_s=0.01,
            )
        )
        async with asyncio.timeout(20):
            while len(tried) < 3:
                await asyncio.sleep(0.005)
        assert not serving.done()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(scenario())
