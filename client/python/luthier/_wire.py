"""The service's messages and calls, from the descriptors in the package: no generated code, so one file serves all
versions of protobuf."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Callable

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "luthier.v1."


@lru_cache(maxsize=None)
def _pool() -> Any:
    path = Path(__file__).with_name("luthier.pb")
    if not path.is_file():
        raise ImportError(f"{path} is missing: run client/python/make_descriptors.sh, which needs protoc")
    files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return pool


def _class_of(descriptor: Any) -> Any:
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    factory: Any = message_factory.MessageFactory(_pool())
    return factory.GetPrototype(descriptor)  # protobuf before 4.22


@lru_cache(maxsize=None)
def message(name: str) -> Any:
    """Returns the class of a message of the API: "StudySpec", "Algorithm.Bo"."""
    return _class_of(_pool().FindMessageTypeByName(_PACKAGE + name))


@lru_cache(maxsize=None)
def enum(name: str) -> dict[str, int]:
    """Returns the values of an enumeration by their names: enum("Trial.State")["COMPLETE"]."""
    return {value.name: value.number for value in _pool().FindEnumTypeByName(_PACKAGE + name).values}


@lru_cache(maxsize=None)
def enum_names(name: str) -> dict[int, str]:
    """Returns the names of an enumeration by their values."""
    return {number: text for text, number in enum(name).items()}


@lru_cache(maxsize=None)
def method(service: str, name: str) -> tuple[str, Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Returns path, serializer and parser of a call: method("StudyService", "GetStudy")."""
    found = _pool().FindServiceByName(_PACKAGE + service).FindMethodByName(name)
    reply = _class_of(found.output_type)

    def serialize(request: Any) -> bytes:
        data: bytes = request.SerializeToString()
        return data

    return f"/{_PACKAGE}{service}/{name}", serialize, reply.FromString


def plain(of: Any) -> dict[str, Any]:
    """Returns a message as dictionaries and lists, with the fields' own names. Whole numbers are numbers, which the
    JSON of protobuf writes as texts."""
    from google.protobuf.json_format import MessageToDict

    out: dict[str, Any] = MessageToDict(of, preserving_proto_field_name=True)
    _make_whole(of.DESCRIPTOR, out)
    return out


def _make_whole(descriptor: Any, out: dict[str, Any]) -> None:
    for field in descriptor.fields:
        value = out.get(field.name)
        if value is None:
            continue
        if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
            out[field.name] = [int(x) for x in value] if isinstance(value, list) else int(value)
        elif field.message_type is not None and field.message_type.full_name.startswith(_PACKAGE):
            for part in value if isinstance(value, list) else [value]:
                if not field.message_type.GetOptions().map_entry:
                    _make_whole(field.message_type, part)
