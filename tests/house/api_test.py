"""Finds changes of the API that a program of an older version would trip over, and declarations without a comment.

    api_test.py OLD_DESCRIPTORS PROTO_FOLDER

OLD_DESCRIPTORS is a FileDescriptorSet of the API as it was, PROTO_FOLDER has luthier/v1/*.proto as it is. Every call,
message, field and enum value of old must be there still, with the same number, type and label: adding is allowed, and
that a field says whether it is there; nothing else is. A release puts its own descriptors in the place of OLD_DESCRIPTORS:

    protoc -I proto --descriptor_set_out=tests/data/api/released.binpb proto/luthier/v1/*.proto

The .proto files are the manual of the API: every service, call, message, field, oneof, enum and enum value has a
comment above it or behind it. "Required.", "Optional." and "Output only." alone say nothing.
"""

import pathlib
import re
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
        elif after[name] not in (described, f"{described} optional".replace("  ", " ")):
            out.append(f"{name} was {described}, is {after[name]}")
    return out


def declarations(file):
    """Yields (path of its location, description) of each thing in `file` that needs a comment."""

    def in_enum(path, enum):
        yield path, f"enum {enum.name}"
        for i, value in enumerate(enum.value):
            yield (*path, 2, i), f"value {enum.name}.{value.name}"

    def in_message(path, message):
        yield path, f"message {message.name}"
        for i, field in enumerate(message.field):
            yield (*path, 2, i), f"field {message.name}.{field.name}"
        for i, nested in enumerate(message.nested_type):
            if not nested.options.map_entry:
                yield from in_message((*path, 3, i), nested)
        for i, enum in enumerate(message.enum_type):
            yield from in_enum((*path, 4, i), enum)
        for i, oneof in enumerate(message.oneof_decl):
            if not oneof.name.startswith("_"):  # Those that the compiler makes of `optional` do.
                yield (*path, 8, i), f"oneof {message.name}.{oneof.name}"

    for i, message in enumerate(file.message_type):
        yield from in_message((4, i), message)
    for i, enum in enumerate(file.enum_type):
        yield from in_enum((5, i), enum)
    for i, service in enumerate(file.service):
        yield (6, i), f"service {service.name}"
        for j, call in enumerate(service.method):
            yield (6, i, 2, j), f"call {service.name}.{call.name}"


def without_comment(files):
    """Returns "file:line: description" of each declaration whose comment is missing or says nothing."""
    out = []
    for file in files.file:
        places = {tuple(place.path): place for place in file.source_code_info.location}
        for path, described in declarations(file):
            place = places[path]
            comment = re.sub("Required|Optional|Output only", "", place.leading_comments + place.trailing_comments)
            if not re.search("[A-Za-z]", comment):
                out.append(f"{file.name}:{place.span[0] + 1}: {described} has no comment")
    return out


def read(path):
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(pathlib.Path(path).read_bytes())
    return files


def compile_folder(folder):
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch, "new.pb")
        sources = sorted(str(p) for p in pathlib.Path(folder, "luthier/v1").glob("*.proto"))
        options = ["-I", folder, "--include_source_info", f"--descriptor_set_out={out}"]
        subprocess.run(["protoc", *options, *sources], check=True)
        return read(out)


PLANTED = """syntax = "proto3";
package luthier.v1;
message Bare {
  // Optional.
  optional int32 said_nothing = 1;
  // A field.
  int32 above = 2;
  int32 behind = 3;  // A field.
  map<string, string> entries = 4;
  oneof kind {
    int32 arm = 5;
  }
  enum State {
    STATE_UNSPECIFIED = 0;
  }
  message Inner {}
}
service Server {
  rpc Call(Bare) returns (Bare);
}
"""
PLANTED_FOUND = """message Bare
field Bare.said_nothing
field Bare.entries
field Bare.arm
message Inner
enum State
value State.STATE_UNSPECIFIED
oneof Bare.kind
service Server
call Server.Call""".splitlines()


def test_comments_themselves():
    """Plants declarations without a comment and looks whether just these are found."""
    with tempfile.TemporaryDirectory() as folder:
        planted = pathlib.Path(folder, "luthier/v1/planted.proto")
        planted.parent.mkdir(parents=True)
        planted.write_text(PLANTED)
        found = [re.sub(r".*: (.*) has no comment", r"\1", line) for line in without_comment(compile_folder(folder))]
    assert found == PLANTED_FOUND, f"self-test: found {found}"


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
    test_comments_themselves()
    new = compile_folder(sys.argv[2])
    found = breaks(old, new)
    for line in found:
        print(line, file=sys.stderr)
    if found:
        sys.exit(f"{len(found)} changes that older programs trip over; add fields and calls instead")
    bare = without_comment(new)
    for line in bare:
        print(line, file=sys.stderr)
    if bare:
        sys.exit(f"{len(bare)} declarations have no comment; say their meaning, unit, bounds and default")
    print(f"{len(flatten(old))} calls, messages, fields and values of the older API are there as they were; all have comments")


main()
