"""Credentials that change while we are connected: token files and exec plugins, and TLS.

Keys that stand in a kubeconfig as text touch the disk only while OpenSSL reads them: it takes
files alone.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from mooring.backends.kubernetes.api.document import Json, text
from mooring.backends.kubernetes.api.errors import NoAccess
from mooring.backends.kubernetes.api.kubeconfig import ClusterAccess, ExecPlugin, Pem
from mooring.backends.kubernetes.api.times import parse_time

#: The kubelet renews a mounted token well before its end; client-go re-reads each minute as well.
_REREAD_S = 60.0
_PLUGIN_TIMEOUT_S = 60.0
_RENEW_BEFORE_S = 30.0


class Credentials:
    """The Authorization header, renewed when it is due."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._token = ""
        self._good_until_s = 0.0
        self._lock = asyncio.Lock()

    async def header(self, *, refused: bool = False) -> str | None:
        """The value to send; `refused`: the last one was not accepted."""
        access = self._access
        if access.token_file is None and access.plugin is None:
            if access.token:
                return f"Bearer {access.token}"
            if access.basic is not None:
                pair = ":".join(access.basic).encode()
                return "Basic " + base64.b64encode(pair).decode()
            return None
        async with self._lock:
            if refused or time.monotonic() >= self._good_until_s:
                await self._renew()
        return f"Bearer {self._token}" if self._token else None

    @property
    def renewable(self) -> bool:
        return self._access.token_file is not None or self._access.plugin is not None

    async def _renew(self) -> None:
        if self._access.token_file is not None:
            try:
                self._token = self._access.token_file.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise NoAccess(f"{self._access.token_file}: {error.strerror}") from error
            self._good_until_s = time.monotonic() + _REREAD_S
        elif self._access.plugin is not None:
            answer = await run_plugin(self._access.plugin)
            self._token = _token(self._access.plugin, answer)
            self._good_until_s = time.monotonic() + _seconds_left(answer)


def _token(plugin: ExecPlugin, answer: Json) -> str:
    """The token of the answer; without one we would be nobody, which looks like missing rights."""
    token = text(answer, "status", "token")
    if token:
        return token
    found = "nothing"
    if text(answer, "status", "clientCertificateData"):
        found = "a client certificate"
    raise NoAccess(
        f"credential plugin {plugin.argv[0]}: status.token: found {found}, accepted: a token"
    )


def _seconds_left(answer: Json) -> float:
    ends = text(answer, "status", "expirationTimestamp")
    if not ends:
        return float("inf")
    return max(0.0, parse_time(ends) - time.time() - _RENEW_BEFORE_S)


async def run_plugin(plugin: ExecPlugin) -> Json:
    """The ExecCredential that the program prints."""
    request = {
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    env = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(request)}
    name = plugin.argv[0]
    try:
        process = await asyncio.create_subprocess_exec(
            *plugin.argv,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f" ({plugin.hint})" if plugin.hint else ""
        raise NoAccess(f"credential plugin {name}: {error.strerror}{hint}") from error
    try:
        out, err = await asyncio.wait_for(process.communicate(), _PLUGIN_TIMEOUT_S)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise NoAccess(
            f"credential plugin {name}: no answer in {_PLUGIN_TIMEOUT_S:.0f} s"
        ) from error
    if process.returncode:
        said = err.decode(errors="replace").strip().splitlines()
        tail = f": {said[-1]}" if said else ""
        raise NoAccess(f"credential plugin {name}: exit code {process.returncode}{tail}")
    try:
        answer: Json = json.loads(out)
    except ValueError as error:
        raise NoAccess(f"credential plugin {name}: its output is not JSON") from error
    return answer


def tls_context(access: ClusterAccess) -> ssl.SSLContext | bool:
    """How to check the server and show who we are; False for plain HTTP."""
    if access.server.startswith("http://"):
        return False
    try:
        context = ssl.create_default_context()
        if access.authority:
            context = ssl.create_default_context(cadata=_material(access.authority))
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if access.certificate:
            with _as_file(access.certificate) as certificate, _as_file(access.key) as key:
                context.load_cert_chain(certificate or "", key)
    except (OSError, ValueError, binascii.Error) as error:
        raise NoAccess(f"context {access.context}: certificates: {error}") from error
    return context


def _material(pem: Pem) -> str:
    if pem.file is not None:
        return pem.file.read_text(encoding="ascii")
    return base64.b64decode(pem.data, validate=True).decode("ascii")


@contextlib.contextmanager
def _as_file(pem: Pem) -> Iterator[str | None]:
    if pem.file is not None:
        yield str(pem.file)
    elif pem.data:
        handle, path = tempfile.mkstemp(prefix="mooring-pem-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(base64.b64decode(pem.data, validate=True))
            yield path
        finally:
            Path(path).unlink()
    else:
        yield None
