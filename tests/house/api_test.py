"""Finds changes of the API that a program of an older version would trip over.

    api_test.py OLD_DESCRIPTORS PROTO_FOLDER

OLD_DESCRIPTORS is a FileDescriptorSet of the API as it was, PROTO_FOLDER has luthier/v1/*.proto as it is. Every call,
message, field and enum value of old must be there still, with the same number, type and label: adding is allowed,
nothing else is. A release puts its own descriptors in the place of OLD_DESCRIPTORS:

    protoc -I proto --descriptor_set_out=tests/data/api/released.binpb proto/luthier/v1/*.proto
"""

import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2


def messages(scope, found):
    """Yields (full name, descriptor) of `found` and all that is nested in them."""
    for message in found:
        name = f"{scope}.{message.name}"
        yield name, message
        yield from messages(name, message.nested_type)


def flatten(files):
    """Returns what the files declare: a description of each thing by its name."""
    out = {}
    for file in files.file:
        enums = [(file.package, e) for e in file.enum_type]
        for name, message in messages(file.package, file.message_type):
            out[f"message {name}"] = ""
            enums += [(name, e) for e in message.enum_type]
            for field in message.field:
                kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
                label = descriptor_pb2.FieldDescriptorProto.Label.Name(field.label)
                presence = "optional" if field.proto3_optional else "in a oneof" if field.HasField("oneof_index") else ""
                described = f"number {field.number}, {kind} {field.type_name}, {label} {presence}"
                out[f"field {name}.{field.name}"] = described
        for scope, enum in enums:
            for value in enum.value:
                out[f"value {scope}.{enum.name}.{value.name}"] = f"number {value.number}"
        for service in file.service:
            for call in service.method:
                streams = f"{call.client_streaming} {call.server_streaming}"
                out[f"call {file.package}.{service.name}.{call.name}"] = f"{call.input_type} {call.output_type} {streams}"
    return out


def breaks(old, new):
    """Returns a sentence for each thing of `old` that `new` lacks or has changed."""
    before, after = flatten(old), flatten(new)
    out = []
    for name, described in before.items():
        if name not in after:
            out.append(f"{name} is gone")
        elif after[name] != described:
            out.append(f"{name} was {described}, is {after[name]}")
    return out


def read(path):
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(pathlib.Path(path).read_bytes())
    return files


def compile_folder(folder):
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch, "new.pb")
        sources = sorted(str(p) for p in pathlib.Path(folder, "luthier/v1").glob("*.proto"))
        subprocess.run(["protoc", "-I", folder, f"--descriptor_set_out={out}", *sources], check=True)
        return read(out)


def test_itself(old):
    """Plants one violation of each kind in a copy of `old` and looks whether it is found."""

    def planted(change):
        new = descriptor_pb2.FileDescriptorSet()
        new.CopyFrom(old)
        study = next(f for f in new.file if f.name.endswith("v1/study.proto"))
        change(study, next(m for m in study.message_type if m.name == "Budget"))
        return breaks(old, new)

    def renumber(_, message):
        message.field[0].number = 99

    def retype(_, message):
        message.field[0].type = descriptor_pb2.FieldDescriptorProto.TYPE_STRING

    def drop(_, message):
        del message.field[0]

    def remove(study, message):
        study.message_type.remove(message)

    for change in (renumber, retype, drop, remove):
        assert planted(change), f"self-test: {change.__name__} was not found"
    assert not planted(lambda study, message: message.field.add(name="added", number=999))


def main():
    old = read(sys.argv[1])
    test_itself(old)
    found = breaks(old, compile_folder(sys.argv[2]))
    for line in found:
        print(line, file=sys.stderr)
    if found:
        sys.exit(f"{len(found)} changes that older programs trip over; add fields and calls instead")
    print(f"{len(flatten(old))} calls, messages, fields and values of the older API are there as they were")


main()
