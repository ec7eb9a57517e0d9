"""The operator's key: made once, the same for all, and worth a wait."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiohttp import web

from mooring.backends.kubernetes.api.errors import KubeError
from mooring.backends.kubernetes.objects.pod_manifest import Owner
from mooring.backends.kubernetes.objects.token import (
    Key,
    new_key,
    parse_key,
    parse_token,
    question,
    token_manifest,
)
from mooring.install.names import KEY_SECRET
from mooring.launcher import proof
from mooring.operator.key import load_key
from unit.kubeapi.answering import answering
from unit.kubeapi.fake_server import status

PATH = f"/api/v1/namespaces/ops/secrets/{KEY_SECRET}"


class Server:
    """Holds one Secret; the first calls fail with these codes."""

    def __init__(self, *codes: int) -> None:
        self.secret: dict[str, Any] | None = None
        self._codes = list(codes)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self._codes:
            code = self._codes.pop(0)
            return web.json_response(status(code, "Trouble"), status=code)
        if request.method == "POST":
            if self.secret is not None:
                return web.json_response(status(409, "AlreadyExists"), status=409)
            self.secret = await request.json()
            return web.json_response(self.secret, status=201)
        assert request.path == PATH
        if self.secret is None:
            return web.json_response(status(404, "NotFound"), status=404)
        return web.json_response(self.secret)


def load(server: Server, times: int) -> list[Key]:
    async def loaded() -> list[Key]:
        async with answering(server.handle) as client:
            return await asyncio.gather(*(load_key(client, "ops") for _ in range(times)))

    return asyncio.run(loaded())


def test_all_replicas_have_the_same_key() -> None:
    first, second = load(server := Server(), 2)
    assert first == second == load(server, 1)[0]
    assert len(first.secret) == 32


def test_a_server_in_trouble_is_waited_for() -> None:
    assert load(Server(500, 403, 410), 1)


def test_a_secret_without_a_key_is_not_used() -> None:
    server = Server()
    server.secret = {"data": {"key": "c2hvcnQ="}}
    with pytest.raises(KubeError, match="no key of 32 bytes"):
        load(server, 1)


def test_each_job_has_a_token_that_only_the_key_tells() -> None:
    key, other = new_key(), new_key()
    tokens = {one.token_of(uid) for one in (key, other) for uid in ("a", "b")}
    assert len(tokens) == 4
    assert repr(key) == object.__repr__(key)
    secret = token_manifest(Owner("j", "ns", "a"), key.token_of("a"))
    assert parse_token(secret) == key.token_of("a")
    assert parse_token({}) == ""
    assert parse_key({"data": {"key": "%%"}}) is None


def test_the_launcher_understands_the_question_and_is_understood() -> None:
    asked = question("a token", "/status", time.time())
    path, _, query = asked.path.partition("?")
    nonce = proof.asked_by_holder("a token", path, query)
    for token in ("another", ""):
        with pytest.raises(ValueError, match="wrong"):
            proof.asked_by_holder(token, path, query)
    shown = proof.prove("a token", proof.ANSWER, nonce, b"{}")
    assert asked.answered_by_holder(b"{}", shown.hex())
    assert not asked.answered_by_holder(b"{ }", shown.hex())
    assert not asked.answered_by_holder(b"{}", "é")
    assert not asked.answered_by_holder(b"{}", "")


def test_an_empty_token_proves_nothing() -> None:
    """As of a Secret that somebody emptied: whoever has heard of it could make its proofs."""
    asked = question("", "/status", time.time())
    path, _, query = asked.path.partition("?")
    with pytest.raises(ValueError, match="wrong"):
        proof.asked_by_holder("", path, query)
    nonce = bytes.fromhex(query.partition("nonce=")[2].partition("&")[0])
    shown = proof.prove("", proof.ANSWER, nonce, b"{}")
    assert not asked.answered_by_holder(b"{}", shown.hex())
    assert not proof.holds("", proof.prove("", proof.GUEST, b"x"), proof.GUEST, b"x")
