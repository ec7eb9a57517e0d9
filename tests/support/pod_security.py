"""The `restricted` Pod Security Standard, as a checker.

Kubernetes documentation, "Pod Security Standards": every control of the profiles `baseline` and
`restricted`. Returns what breaks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip
_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
}  # fmt: skip
_SECCOMP = ("RuntimeDefault", "Localhost")
_KINDS = ("initContainers", "containers", "ephemeralContainers")


def breaches(pod_spec: Mapping[str, Any]) -> list[str]:
    return [*_pod(pod_spec), *_containers(pod_spec)]


def _pod(spec: Mapping[str, Any]) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield field
    context = spec.get("securityContext", {})
    if context.get("runAsUser") == 0:
        yield "runAsUser 0"
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield "hostProcess"
    for sysctl in context.get("sysctls", []):
        if sysctl["name"] not in _SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    for volume in spec.get("volumes", []):
        for kind in set(volume) - {"name"} - _VOLUMES:
            yield f"volume {volume['name']}: {kind}"


def _containers(spec: Mapping[str, Any]) -> Iterator[str]:
    pod = spec.get("securityContext", {})
    for container in [one for kind in _KINDS for one in spec.get(kind, [])]:
        name = container["name"]
        own = container.get("securityContext", {})
        if own.get("privileged"):
            yield f"{name}: privileged"
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation"
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []):
            yield f"{name}: capabilities are not dropped"
        if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name}: capabilities are added"
        if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield f"{name}: runAsNonRoot"
        if own.get("runAsUser") == 0:
            yield f"{name}: runAsUser 0"
        seccomp = own.get("seccompProfile", pod.get("seccompProfile", {}))
        if seccomp.get("type") not in _SECCOMP:
            yield f"{name}: seccompProfile"
        if own.get("procMount", "Default") != "Default":
            yield f"{name}: procMount"
        if any(port.get("hostPort") for port in container.get("ports", [])):
            yield f"{name}: hostPort"
        handlers = [container.get(probe, {}) for probe in ("livenessProbe", "readinessProbe")]
        if any("host" in handler.get("httpGet", {}) for handler in handlers):
            yield f"{name}: a probe of another host"
