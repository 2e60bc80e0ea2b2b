"""Server reflection is for admins: who asks, what they learn, and streams that do not end by themselves."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from attack import ROOT, Caller, Coordinator, Http2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PATHS = [f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")]


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The protocol's messages by their short names, under no Python module, as the package `grpc` has that name."""
    made = tmp_path_factory.mktemp("reflection") / "set.pb"
    subprocess.run(["protoc", f"-I{ROOT / 'proto'}", f"--descriptor_set_out={made}", "grpc/reflection/v1/reflection.proto"],
                   check=True)
    files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName(f"grpc.reflection.v1.{name}"))
            for name in ("ServerReflectionRequest", "ServerReflectionResponse")}


def converse(caller: Caller, path: str, requests: Any, timeout: float = 20) -> Any:
    """Begins a stream that sends bytes; iterate over the bytes of its answers."""
    return caller.channel.stream_stream(path)(requests, timeout=timeout, metadata=caller.metadata)


def refusal(caller: Caller, path: str, request: bytes) -> tuple[grpc.StatusCode, str]:
    """How a stream ends that must get no answer."""
    with pytest.raises(grpc.RpcError) as refused:
        answers = list(converse(caller, path, iter([request])))
        raise AssertionError(answers)
    return refused.value.code(), refused.value.details()


@pytest.mark.parametrize("path", PATHS)
def test_admins_alone_learn_what_there_is_and_the_audit_says_who_asked(coordinator: Coordinator, words: dict[str, Any],
                                                                        path: str) -> None:
    request = words["ServerReflectionRequest"](file_containing_symbol="luthier.v1.AdminService").SerializeToString()
    for name, roles in {"eve": ["viewer"], "bob": ["user"], "box": ["worker"], "both": ["user", "worker"]}.items():
        caller = coordinator.caller(coordinator.make_token(name, *roles))
        code, why = refusal(caller, path, request)
        assert code == grpc.StatusCode.PERMISSION_DENIED and "ServerReflection" in why, (name, code, why)
        caller.close()
    for token in (None, "lut_0123456789abcdef_" + "A" * 43):
        caller = coordinator.caller(token)
        assert refusal(caller, path, request)[0] == grpc.StatusCode.UNAUTHENTICATED
        caller.close()
    for caller in (coordinator.caller(coordinator.admin_token), coordinator.caller(address=coordinator.own_socket)):
        (answer,) = converse(caller, path, iter([request]))
        learnt = words["ServerReflectionResponse"].FromString(answer)
        assert any(b"RevokeToken" in file for file in learnt.file_descriptor_response.file_descriptor_proto)
        caller.close()
    admin = coordinator.caller(coordinator.admin_token)
    tried = [r for r in admin.call("AdminService/ListAudit", page_size=1000).entries if r.method == "ServerReflection/ServerReflectionInfo"]
    assert {r.object for r in tried} == {"luthier.v1.AdminService"}
    assert sum(r.times for r in tried if r.outcome == "OK") == 2
    assert {r.outcome for r in tried} == {"OK", "ROLE", "NO_TOKEN", "BAD_TOKEN"}
    admin.close()


def test_without_access_control_all_may_ask(tmp_path: Path, words: dict[str, Any]) -> None:
    with Coordinator(tmp_path, "--auth", "off") as open_to_all:
        caller = open_to_all.caller()
        request = words["ServerReflectionRequest"](list_services="").SerializeToString()
        for path in PATHS:
            (answer,) = converse(caller, path, iter([request]))
            services = words["ServerReflectionResponse"].FromString(answer).list_services_response.service
            assert "luthier.v1.StudyService" in {service.name for service in services}
        caller.close()


def test_a_token_that_is_revoked_learns_no_more_on_the_stream_that_it_has(coordinator: Coordinator,
                                                                          words: dict[str, Any]) -> None:
    admin = coordinator.caller(coordinator.admin_token)
    token = coordinator.make_token("second", "admin")
    request = words["ServerReflectionRequest"](list_services="").SerializeToString()

    def requests() -> Any:
        yield request
        yield request

    sent = requests()
    second = coordinator.caller(token)
    gate: list[bytes] = []

    def stepwise() -> Any:
        yield next(sent)
        deadline = time.monotonic() + 8
        while not gate and time.monotonic() < deadline:
            time.sleep(0.02)
        yield next(sent)

    answers = converse(second, PATHS[0], stepwise())
    assert next(answers)
    made = next(t for t in admin.call("AdminService/ListTokens").tokens if t.name == "second")
    admin.call("AdminService/RevokeToken", id=made.id)
    gate.append(b"")
    with pytest.raises(grpc.RpcError) as refused:
        next(answers)
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED, refused.value
    second.close()
    admin.close()


def test_silent_streams_end_and_hold_no_end_of_the_coordinator(coordinator: Coordinator) -> None:
    before = coordinator.descriptors()
    with Http2(coordinator) as wire:
        streams = [wire.request(PATHS[i % 2], body=None) for i in range(200)]
        reset = streams[::3]
        for stream in reset:
            wire.h2.reset_stream(stream)
        wire.flush()
        for stream in (streams[1], streams[-1]):
            answer = wire.answer(stream, 30)
            assert answer.get("grpc-status") == str(grpc.StatusCode.DEADLINE_EXCEEDED.value[0]), answer
    coordinator.assert_alive()
    assert coordinator.descriptors() <= before + 20
    with Http2(coordinator) as wire:
        for path in PATHS * 50:
            wire.request(path, body=None)
        assert coordinator.stop(30) == 0, coordinator.log()


def test_garbage_and_hang_ups(coordinator: Coordinator, words: dict[str, Any]) -> None:
    caller = coordinator.caller(coordinator.admin_token)
    good = words["ServerReflectionRequest"](list_services="").SerializeToString()
    for bad in (b"\xff" * 1000, b"\x1a\xff\xff\xff\xff\x0f", b"x" * (1 << 20), b"\x22" + b"\x80\x40" + b"y" * 8192):
        for path in PATHS:
            with pytest.raises(grpc.RpcError) as refused:
                list(converse(caller, path, iter([good, bad, good])))
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT, refused.value
    for _ in range(200):
        answers = converse(caller, PATHS[0], iter([good] * 20))
        next(answers)
        answers.cancel()
    for path in PATHS:
        assert len(list(converse(caller, path, iter([good] * 100)))) == 100
    caller.call("StudyService/ListStudies", parent="projects/default")
    caller.close()
    assert coordinator.stop() == 0, coordinator.log()
