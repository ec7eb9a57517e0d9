"""What can be asked of an API server: objects by kind and name, lists by the page, changes.

How calls travel and which of them are made again is the connection's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from mooring.backends.kubernetes.api.codec import JSON
from mooring.backends.kubernetes.api.connection import ApiConnection, Request, Response
from mooring.backends.kubernetes.api.document import Json, Object, items, mapping, text
from mooring.backends.kubernetes.api.errors import NotFound, Unreachable, api_error
from mooring.backends.kubernetes.api.resources import POD, ResourceKind

FIELD_MANAGER = "mooring"
#: A page as Python objects takes ten times the room of its text: few at a time keep memory low.
_PAGE = 100
_LARGEST_POD_ANSWER_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ListPage:
    """Some objects of a list; `version` is that of the list as a whole."""

    objects: tuple[Object, ...]
    version: str


@dataclass(frozen=True)
class WatchEvent:
    """A line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    kind: str
    object: Object


class Client(ApiConnection):
    """A connection to one API server, in Kubernetes' verbs."""

    async def get(self, kind: ResourceKind, name: str, namespace: str | None = None) -> Object:
        return await self.call("GET", kind.path(namespace, name), kind.plural)

    async def pages(
        self, kind: ResourceKind, namespace: str | None = None, labels: str = "", accept: str = JSON
    ) -> AsyncIterator[ListPage]:
        """All objects, some at a time; raises Expired if the server forgets where we were."""
        path = kind.path(namespace)
        params = {"limit": str(_PAGE)}
        if labels:
            params["labelSelector"] = labels
        while True:
            request = Request("GET", path, kind.plural, params, accept=accept)
            answer = (await self.answer(request)).read()
            version = text(answer, "metadata", "resourceVersion")
            if not version:
                # Taken for an empty list, it would be the end of all that is known.
                raise Unreachable(f"{request}: the answer is not a list")
            yield ListPage(tuple(items(answer, "items")), version)
            more = text(answer, "metadata", "continue")
            if not more:
                return
            params["continue"] = more

    async def list(
        self, kind: ResourceKind, namespace: str | None = None, labels: str = ""
    ) -> tuple[Object, ...]:
        found: list[Object] = []
        async for page in self.pages(kind, namespace, labels):
            found += page.objects
        return tuple(found)

    async def create(self, kind: ResourceKind, manifest: Object) -> Object:
        return (await self.create_unread(kind, manifest)).read()

    async def create_unread(
        self, kind: ResourceKind, manifest: Object, accept: str = JSON
    ) -> Response:
        """For many objects that somebody watches: most of these answers need never be read."""
        path = kind.path(text(manifest, "metadata", "namespace"))
        params = {"fieldManager": FIELD_MANAGER}
        request = Request("POST", path, kind.plural, params, manifest, accept=accept)
        return await self.answer(request)

    async def apply(self, kind: ResourceKind, manifest: Object, *, dry_run: bool = False) -> Object:
        """Server-side apply: made if it is not there, brought to what we say if it is."""
        name, namespace = (
            text(manifest, "metadata", "name"),
            text(manifest, "metadata", "namespace"),
        )
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        if dry_run:
            params["dryRun"] = "All"
        return await self.call(
            "PATCH",
            kind.path(namespace, name),
            kind.plural,
            params=params,
            body=manifest,
            content_type="application/apply-patch+yaml",
        )

    async def replace(self, kind: ResourceKind, manifest: Object, subresource: str = "") -> Object:
        """PUT: refused with Conflict if the object is no longer the one that was read."""
        name, namespace = (
            text(manifest, "metadata", "name"),
            text(manifest, "metadata", "namespace"),
        )
        path = kind.path(namespace, name, subresource)
        params = {"fieldManager": FIELD_MANAGER}
        return await self.call("PUT", path, kind.plural, params=params, body=manifest)

    async def merge(
        self,
        kind: ResourceKind,
        name: str,
        namespace: str | None,
        patch: Object,
        subresource: str = "",
    ) -> Object:
        """A JSON merge patch; with metadata.resourceVersion in it, as strict as `replace`."""
        return await self.call(
            "PATCH",
            kind.path(namespace, name, subresource),
            kind.plural,
            params={"fieldManager": FIELD_MANAGER},
            body=patch,
            content_type="application/merge-patch+json",
        )

    async def delete(
        self,
        kind: ResourceKind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        grace_s: int | None = None,
    ) -> bool:
        """Ask for the object's end; False if it was not there. With `uid`, only that very one."""
        options: dict[str, Json] = {"propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            await self.call("DELETE", kind.path(namespace, name), kind.plural, body=options)
        except NotFound:
            return False
        return True

    async def proxy(self, pod: str, namespace: str, port: int, path: str) -> Response:
        """What a pod answers over HTTP, through the API server. Pods are not trusted: a long
        answer is none (Unreachable)."""
        route = POD.path(namespace, f"{pod}:{port}", "proxy") + path
        request = Request("GET", route, "pods/proxy", most_bytes=_LARGEST_POD_ANSWER_BYTES)
        return await self.answer(request)

    async def pod_log(
        self, pod: str, namespace: str, params: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """The lines of a container's log; with `follow`, until it ends, however long it is silent.

        Empty lines are left out unless the params ask for timestamps.
        """
        async for part in self.parts(POD.path(namespace, pod, "log"), "pods/log", params, None):
            yield part.raw

    async def watch(
        self,
        kind: ResourceKind,
        namespace: str | None,
        version: str,
        labels: str = "",
        timeout_s: int = 300,
        accept: str = JSON,
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `version`, until the server ends the watch."""
        params = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        if labels:
            params["labelSelector"] = labels
        async for part in self.parts(
            kind.path(namespace), kind.plural, params, timeout_s + 30, accept
        ):
            change = part.read()
            found = WatchEvent(text(change, "type"), mapping(change, "object"))
            if found.kind == "ERROR":
                raise api_error(500, found.object, f"watch of {kind.plural}")
            yield found

    async def call(
        self,
        method: str,
        path: str,
        resource: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json = None,
        content_type: str = JSON,
    ) -> Object:
        """One call, made again only where the server says that it did nothing."""
        answer = await self.answer(Request(method, path, resource, params, body, content_type))
        return answer.read()
