"""What kubelets are set to, asked through the API server: seldom, few at a time, if told to.

The right to ask (`nodes/proxy`) also opens other doors of a kubelet, so it is not given by default.
A kubelet that does not answer, or may not be asked, is one whose settings are not known.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.errors import Forbidden, KubeError
from mooring.backends.kubernetes.api.resources import NODE
from mooring.backends.kubernetes.objects.kubelet import parse_configz
from mooring.model.cluster import KubeletPolicy

log = logging.getLogger(__name__)

_PARALLEL = 8
_ANSWER_S = 5.0
#: Settings change with a restart of the kubelet, which is rare.
_KNOWN_FOR_S = 3600.0
_SILENT_FOR_S = 600.0
_LOOK_S = 15.0
#: How long the first plans wait for answers.
_FIRST_S = 10.0


@dataclass(frozen=True)
class _Answer:
    policy: KubeletPolicy | None
    ask_again_s: float


async def ask_kubelet(client: Client, node: str) -> KubeletPolicy | None:
    """Raises Forbidden: then no other node need be asked."""
    try:
        path = NODE.path(None, node, "proxy/configz")
        return parse_configz(
            await asyncio.wait_for(client.call("GET", path, "nodes/proxy"), _ANSWER_S)
        )
    except Forbidden:
        raise
    except (KubeError, TimeoutError):
        return None


async def ask_kubelets(
    client: Client, nodes: Collection[str], within_s: float = _FIRST_S
) -> dict[str, KubeletPolicy]:
    """Once, for a command: what can be had within the time."""
    kubelets = Kubelets(client, lambda: nodes, lambda: None)
    await kubelets.first(within_s)
    return {name: policy for name in nodes if (policy := kubelets.of(name)) is not None}


class Kubelets:
    """`nodes` are those to ask about; `changed` is called when something new is known."""

    def __init__(
        self,
        client: Client,
        nodes: Callable[[], Iterable[str]],
        changed: Callable[[], None],
    ) -> None:
        self._client, self._nodes, self._changed = client, nodes, changed
        self._answers: dict[str, _Answer] = {}
        self._slots = asyncio.Semaphore(_PARALLEL)
        self._not_before_s = 0.0

    def of(self, node: str) -> KubeletPolicy | None:
        answer = self._answers.get(node)
        return answer.policy if answer else None

    async def first(self, within_s: float = _FIRST_S) -> None:
        """One look, cut short after that time; `run` asks the rest."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.look(), within_s)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.look()
            except Exception:
                log.exception("settings of kubelets: a defect")

    async def look(self) -> None:
        """Ask those whose settings are not known, or have been for long."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._not_before_s:
            return
        nodes = set(self._nodes())
        for name in self._answers.keys() - nodes:
            del self._answers[name]
        due = [
            name
            for name in sorted(nodes)
            if name not in self._answers or self._answers[name].ask_again_s <= now_s
        ]
        await asyncio.gather(*map(self._ask, due))

    async def _ask(self, node: str) -> None:
        async with self._slots:
            now_s = asyncio.get_running_loop().time()
            if now_s < self._not_before_s:
                return
            try:
                policy = await ask_kubelet(self._client, node)
            except Forbidden as error:
                if now_s >= self._not_before_s:
                    log.warning("the settings of kubelets stay unknown: %s", error)
                self._not_before_s = now_s + _KNOWN_FOR_S
                return
        before = self.of(node)
        if policy is None and before is not None:
            # It answered before: what it said then is a better guess than nothing.
            policy = before
        wait_s = _KNOWN_FOR_S if policy is not None else _SILENT_FOR_S
        self._answers[node] = _Answer(policy, now_s + wait_s)
        if policy != before:
            self._changed()
