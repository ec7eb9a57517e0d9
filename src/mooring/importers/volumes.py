"""Volumes and mounts are passed on as they are, but for /dev/shm, which Mooring mounts itself."""

from __future__ import annotations

from mooring.importers.pod import Pod
from mooring.importers.tracked import Field

_OURS = "Mooring mounts /dev/shm itself"


def read_volume(volume: Field, containers: Field, pod: Pod) -> None:
    """Passed on as it is; memory under /dev/shm is a size that Mooring sets itself."""
    to = pod.on_kubernetes("volumes")
    memory = volume["emptyDir"]
    if memory["medium"].value == "Memory" and str(volume["name"].value) in _shared(containers):
        size = memory["sizeLimit"]
        volume["name"].drop(_OURS)
        memory["medium"].drop(_OURS)
        if size.present:
            pod.draft.carry(pod.on_kubernetes("sharedMemory"), size)
        return
    pod.draft.put(to, [*(pod.draft.get(to) or []), volume.map(to)])


def _shared(containers: Field) -> set[str]:
    return {
        str(mount["name"].value)
        for container in containers.items()
        for mount in container["volumeMounts"].items()
        if _is_shared_memory(mount)
    }


def _is_shared_memory(mount: Field) -> bool:
    return str(mount["mountPath"].value).rstrip("/") == "/dev/shm"


def read_mounts(mounts: Field, pod: Pod) -> None:
    to = pod.on_kubernetes("volumeMounts")
    for mount in mounts.items():
        if _is_shared_memory(mount):
            mount["name"].drop(_OURS)
            mount["mountPath"].drop(_OURS)
        else:
            pod.draft.put(to, [*(pod.draft.get(to) or []), mount.map(to)])
