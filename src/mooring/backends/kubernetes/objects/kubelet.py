"""What a node's kubelet is set to, from its own configuration (`/configz`).

Read through the API server (`nodes/proxy`): nothing else tells whether a node's CPU manager gives
anybody CPUs of their own.
"""

from __future__ import annotations

from mooring.backends.kubernetes.api.document import Json, mapping, text, texts
from mooring.backends.kubernetes.objects.amounts import MOST_CPUS, amounts
from mooring.backends.kubernetes.objects.pods import parse_ids
from mooring.model.cluster import CpuManager, KubeletPolicy, TopologyManager, TopologyScope

_ON = "true"


def parse_configz(answer: Json) -> KubeletPolicy | None:
    """None if the answer is no kubelet's configuration, or has settings that are not known here."""
    config = mapping(answer, "kubeletconfig")
    if not config:
        return None
    try:
        cpus = CpuManager(text(config, "cpuManagerPolicy").lower() or CpuManager.NONE)
        cells = TopologyManager(
            text(config, "topologyManagerPolicy").lower() or TopologyManager.NONE
        )
        scope = TopologyScope(text(config, "topologyManagerScope") or TopologyScope.CONTAINER)
    except ValueError:
        return None
    options = texts(config, "cpuManagerPolicyOptions")
    static = cpus is CpuManager.STATIC
    return KubeletPolicy(
        cpus,
        cells,
        scope,
        static and options.get("full-pcpus-only", "") == _ON,
        _reserved(config) if static else frozenset(),
        static and options.get("prefer-align-cpus-by-uncorecache", "") == _ON,
    )


def _reserved(config: Json) -> frozenset[int]:
    """The named CPUs, or as many of the lowest as the reserved amounts come to, rounded up."""
    named = parse_ids(text(config, "reservedSystemCPUs"))
    if named:
        return frozenset(named)
    kept = sum(
        amounts(mapping(config, key)).cpu_millis for key in ("systemReserved", "kubeReserved")
    )
    return frozenset(range(min(MOST_CPUS, -(-kept // 1000))))
