"""What placing must know of the volumes that a job's pods name, which are written as in a pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.model.errors import Problem
from mooring.model.resources import parse_quantity
from mooring.model.volumes import Access, Claim, Volume
from mooring.spec.kubernetes import PodSpec

#: Disks by id: the field that has it, and whether a second reader is refused as well. These are
#: the kinds that kube-scheduler's VolumeRestrictions knows.
DISKS = {
    "gcePersistentDisk": (("pdName",), False),
    "awsElasticBlockStore": (("volumeID",), True),
    "iscsi": (("iqn",), False),
    "rbd": (("pool", "image"), False),
}


def volumes_of(pod: PodSpec) -> tuple[Volume, ...]:
    """Those that decide about a node; config maps, secrets, empty folders and the like do not."""
    return tuple(found for part in pod.volumes for found in _volume(part))


def problems_of(pod: PodSpec, path: str) -> Iterator[Problem]:
    for index, part in enumerate(pod.volumes):
        try:
            list(_volume(part))
        except ValueError as error:
            yield Problem(f"{path}.volumes[{index}]", str(error), "a volume as in a pod")


def _volume(part: Mapping[str, object]) -> Iterator[Volume]:
    claim = _section(part, "persistentVolumeClaim")
    if claim is not None:
        yield Volume(_text(claim, "claimName"), read_only=claim.get("readOnly") is True)
    own = _section(part, "ephemeral")
    if own is not None:
        template = _section(own, "volumeClaimTemplate") or {}
        yield Volume(own=_claim(_section(template, "spec") or {}))
    for kind, (keys, exclusive) in DISKS.items():
        disk = _section(part, kind)
        if disk is not None:
            name = "/".join(_text(disk, key) for key in keys if key in disk or key != "pool")
            read_only = disk.get("readOnly") is True
            yield Volume(disk=f"{kind} {name}", read_only=read_only, exclusive=exclusive)


def _claim(spec: Mapping[str, object]) -> Claim:
    resources = _section(spec, "resources") or {}
    requests = _section(resources, "requests") or {}
    asked = requests.get("storage", 0)
    try:
        amount = int(parse_quantity(str(asked)))
    except ValueError:
        raise ValueError(f"a storage request of {asked!r}") from None
    name = spec.get("storageClassName", "")
    modes = spec.get("accessModes") or [Access.ONE_NODE.value]
    known = [mode.value for mode in Access]
    if not isinstance(modes, list) or not all(mode in known for mode in modes):
        raise ValueError(f"access modes {modes!r} (there are {', '.join(known)})")
    return Claim("", str(name), amount, frozenset(Access(mode) for mode in modes))


def _section(part: Mapping[str, object], key: str) -> Mapping[str, object] | None:
    found = part.get(key)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise ValueError(f"{key} that is no mapping")
    return found


def _text(part: Mapping[str, object], key: str) -> str:
    found = part.get(key)
    if not isinstance(found, str) or not found:
        raise ValueError(f"no {key}" if found is None else f"{key} {found!r}")
    return found
