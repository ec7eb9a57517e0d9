"""Pods as an API server writes them in protobuf, read to what its JSON says of the same fields.

A cluster's own programs all watch pods in this form: the server encodes each change for them
anyway, and for whoever wants JSON once more. Only the fields below are read. Their numbers are part
of Kubernetes' API (generated.proto of core/v1 and meta/v1) and never get another meaning.

Texts are declared as bytes: the server does not promise UTF-8, and what is none must not end a
watch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from mooring.backends.kubernetes.api.codec import JSON, PROTOBUF
from mooring.backends.kubernetes.api.document import Json
from mooring.backends.kubernetes.api.times import write_seconds

#: How pods are asked for of which little is read: in this form, if the server has it.
LEAN_PODS: Final = f"{PROTOBUF}, {JSON};q=0.9"
#: `field=number` is a text; another type follows a colon, `[...]` around it is a list and `{...}`
#: a mapping from texts.
_MESSAGES: Final = """
Unknown               typeMeta=1:TypeMeta raw=2:bytes
TypeMeta              apiVersion=1 kind=2
WatchEvent            type=1 object=2:RawExtension
RawExtension          raw=1:bytes
Status                status=2 message=3 reason=4 code=6:int32
ListMeta              resourceVersion=2 continue=3
ObjectMeta            name=1 namespace=3 uid=5 resourceVersion=6 creationTimestamp=8:Time
                      deletionTimestamp=9:Time labels=11:{text} annotations=12:{text}
                      ownerReferences=13:[OwnerReference]
OwnerReference        kind=1 name=3 uid=4 apiVersion=5 controller=6:bool
Time                  seconds=1:int64
Quantity              string=1
PodList               metadata=1:ListMeta items=2:[Pod]
Pod                   metadata=1:ObjectMeta spec=2:PodSpec status=3:PodStatus
PodSpec               volumes=1:[Volume] containers=2:[Container] nodeName=10
                      initContainers=20:[Container] overhead=32:{Quantity}
Container             ports=6:[ContainerPort] resources=8:ResourceRequirements
ContainerPort         hostPort=2:int32
ResourceRequirements  requests=2:{Quantity}
Volume                name=1 volumeSource=2:VolumeSource
VolumeSource          gcePersistentDisk=3:GcePersistentDisk awsElasticBlockStore=4:AwsElasticDisk
                      iscsi=8:Iscsi persistentVolumeClaim=10:Claim rbd=11:Rbd ephemeral=29:Ephemeral
GcePersistentDisk     pdName=1 readOnly=4:bool
AwsElasticDisk        volumeID=1 readOnly=4:bool
Iscsi                 iqn=2 readOnly=6:bool
Claim                 claimName=1 readOnly=2:bool
Rbd                   image=2 pool=4 readOnly=8:bool
Ephemeral             volumeClaimTemplate=1:Template
Template
PodStatus             phase=1 conditions=2:[PodCondition] message=3 reason=4
                      containerStatuses=8:[ContainerStatus] qosClass=9
PodCondition          type=1 status=2 reason=5 message=6
ContainerStatus       name=1 state=2:ContainerState lastState=3:ContainerState restartCount=5:int32
ContainerState        waiting=1:Waiting running=2:Running terminated=3:Terminated
Waiting               reason=1 message=2
Running               startedAt=1:Time
Terminated            exitCode=1:int32 reason=3
"""
_MAGIC: Final = b"k8s\0"
_CONTENT: Final = frozenset({"Pod", "PodList", "Status"})
_PACKAGE: Final = "mooring.backends.kubernetes.api"
_TYPES: Final = {
    "text": FieldDescriptorProto.TYPE_BYTES,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "bool": FieldDescriptorProto.TYPE_BOOL,
}
#: From a value as the library has it.
_Reader: TypeAlias = Callable[[Any], Json]


def read(raw: bytes) -> Json:
    """A pod, a list of pods or a status. Raises ValueError for what is none of them."""
    if not raw.startswith(_MAGIC):
        raise ValueError("not an object of Kubernetes in protobuf")
    envelope = _parsed("Unknown", raw[len(_MAGIC) :])
    kind = _text(envelope.typeMeta.kind)
    if kind not in _CONTENT:
        raise ValueError(f"a {kind or 'nameless object'} in protobuf")
    return _object(_parsed(kind, envelope.raw))


def read_event(raw: bytes) -> Json:
    """A change, as a watch tells it."""
    event = _parsed("WatchEvent", raw)
    return {"type": _text(event.type), "object": read(event.object.raw)}


# A message's fields have no types: the library makes them while it runs.
def _parsed(name: str, raw: bytes) -> Any:
    message = _CLASSES[name]()
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise ValueError(f"a broken {name} in protobuf") from error
    return message


def _object(message: Message) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for field, value in message.ListFields():
        name, reader = _READERS[field]
        found[name] = reader(value)
    return found


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _same(value: Json) -> Json:
    return value


def _time(message: Any) -> Json:
    """One that nobody has set is written, too: without its second."""
    if not message.HasField("seconds"):
        return None
    try:
        return _written(message.seconds)
    except (ValueError, OverflowError, OSError):
        # A pod may be given until the year 33000 to end; it is on its way out all the same.
        return f"{message.seconds} s after 1970"


#: The pods of a gang are made within few seconds.
_written = lru_cache(maxsize=1024)(write_seconds)


def _quantity(message: Any) -> Json:
    return _text(message.string)


def _volume(message: Any) -> Json:
    return {"name": _text(message.name), **_object(message.volumeSource)}


@dataclass(frozen=True)
class _Field:
    """One entry of the table above."""

    name: str
    number: int
    shape: str

    @property
    def kind(self) -> str:
        return self.shape.strip("[]{}")

    @property
    def is_mapping(self) -> bool:
        return self.shape.startswith("{")

    def descriptor(self) -> FieldDescriptorProto:
        made = FieldDescriptorProto(name=self.name, number=self.number)
        many = self.shape[0] in "[{"
        made.label = made.LABEL_REPEATED if many else made.LABEL_OPTIONAL
        if self.is_mapping or self.kind not in _TYPES:
            made.type = made.TYPE_MESSAGE
            made.type_name = f".{_PACKAGE}.{_entry(self.kind) if self.is_mapping else self.kind}"
        else:
            made.type = _TYPES[self.kind]
        return made

    def reader(self) -> _Reader:
        one = _READER_OF.get(self.kind, _same if self.kind in _TYPES else _object)
        if self.is_mapping:
            return lambda entries: {_text(each.key): one(each.value) for each in entries}
        if self.shape.startswith("["):
            return lambda values: [one(each) for each in values]
        return one


_READER_OF: Final[dict[str, _Reader]] = {
    "text": _text,
    "Time": _time,
    "Quantity": _quantity,
    "Volume": _volume,
}


def _entry(kind: str) -> str:
    """What a mapping is a list of."""
    return f"EntryOf{kind.title()}"


def _table() -> Iterator[tuple[str, list[_Field]]]:
    name, fields = "", list[_Field]()
    for line in _MESSAGES.strip().splitlines():
        listed = line.split()
        if not line.startswith(" "):
            if name:
                yield name, fields
            name, fields = listed.pop(0), []
        for one in listed:
            what, _, shape = one.partition(":")
            label, _, number = what.partition("=")
            fields.append(_Field(label, int(number), shape or "text"))
    yield name, fields
    for kind in ("text", "Quantity"):
        yield _entry(kind), [_Field("key", 1, "text"), _Field("value", 2, kind)]


def _made() -> tuple[dict[str, type[Message]], dict[FieldDescriptor, tuple[str, _Reader]]]:
    table = dict(_table())
    described = FileDescriptorProto(
        name="mooring/kubeapi.proto",
        package=_PACKAGE,
        syntax="proto2",
        message_type=[
            DescriptorProto(name=name, field=[one.descriptor() for one in fields])
            for name, fields in table.items()
        ],
    )
    pool = DescriptorPool()
    pool.AddSerializedFile(described.SerializeToString())
    classes, readers = {}, {}
    for name, fields in table.items():
        descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
        classes[name] = GetMessageClass(descriptor)
        for one in fields:
            readers[descriptor.fields_by_name[one.name]] = one.name, one.reader()
    return classes, readers


_CLASSES, _READERS = _made()
