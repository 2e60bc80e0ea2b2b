"""Whoever calls a method that the coordinator lacks is told so, and the coordinator goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from attack import Coordinator, Http2

UNIMPLEMENTED = str(grpc.StatusCode.UNIMPLEMENTED.value[0])

PATHS = [
    "/AWS.ALB/healthcheck",  # The default health check of a load balancer.
    "/grpc.testing.TestService/UnimplementedCall",  # gRPC's interop case unimplemented_method.
    "/grpc.testing.UnimplementedService/UnimplementedCall",  # gRPC's interop case unimplemented_service.
    "/grpc.reflection.v1.ServerReflection/Other",
    "/grpc.reflection.v2.ServerReflection/ServerReflectionInfo",
    "/luthier.v2.StudyService/CreateStudy",  # A newer client.
    "/luthier.v1.StudyService/ForkStudy",
    "/luthier.v1.StudyService/",
    "/luthier.v1.StudyService",
    "/luthier.v1.studyservice/createstudy",
    "/grpc.health.v1.Health/List",
    "/",
    "//",
    "/a" * 1000,
    "/\u202e\u00fc.S/M",
    "/%2e%2e/%00",
]


@pytest.fixture(params=["plain", "tls", "mtls", "socket", "own_socket", "metrics"])
def edge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Coordinator]:
    """A coordinator of each way to reach one."""
    kind = request.param
    listen = f"unix:{tmp_path}/listen" if kind == "socket" else "127.0.0.1:0"
    flags = ["--metrics-listen", "127.0.0.1:0"] if kind == "metrics" else []
    tls = request.getfixturevalue("certificates") if kind in ("tls", "mtls") else None
    with Coordinator(tmp_path, *flags, listen=listen, tls=tls, mtls=kind == "mtls") as made:
        if kind == "own_socket":
            made.address = made.own_socket
        yield made


def still_serves(coordinator: Coordinator) -> None:
    coordinator.assert_alive()
    caller = coordinator.caller(None if coordinator.address.startswith("unix:") else coordinator.admin_token)
    caller.call("StudyService/ListStudies", parent="projects/default")
    caller.close()


def test_every_unknown_path_is_unimplemented_and_named(edge: Coordinator) -> None:
    with Http2(edge) as wire:
        for path in PATHS:
            answer = wire.answer(wire.request(path.encode()))
            assert answer.get("grpc-status") == UNIMPLEMENTED, (path[:40], answer)
            message = answer["grpc-message"]
            assert "luthierd 0." in message and "has no method" in message, (path[:40], message)
            assert len(message) < 2048
            assert edge.alive(), path[:40]
    still_serves(edge)


def test_the_call_of_a_grpc_library_with_and_without_a_token(edge: Coordinator) -> None:
    token = None if edge.address.startswith("unix:") else edge.admin_token
    for who in (None, token, "lt_nobody_nothing"):
        caller = edge.caller(who)
        for body in (b"", b"\x0a\x03abc", b"\xff" * 1000, b"x" * (1 << 20)):
            for kind in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
                sent = body if kind.startswith("unary") else iter([body] * 3)
                made = getattr(caller.channel, kind)("/luthier.v9.Service/Method")
                with pytest.raises(grpc.RpcError) as refused:
                    list(made(sent, timeout=10, metadata=caller.metadata)) if kind.endswith("stream") else made(
                        sent, timeout=10, metadata=caller.metadata)
                assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED, refused.value
        caller.close()
    still_serves(edge)


def test_resets_and_half_open_streams_of_unknown_methods(edge: Coordinator) -> None:
    before = edge.descriptors()
    for _ in range(3):
        with Http2(edge) as wire:
            for i in range(300):
                stream = wire.request("/no.Such/Method", body=b"\0\0\0\0\0" if i % 3 == 0 else None)
                if i % 3 == 1:
                    wire.h2.reset_stream(stream)
                    wire.flush()
                wire.events(0)
    still_serves(edge)
    assert edge.descriptors() <= before + 20


def test_many_at_once_beside_calls_that_are_known(edge: Coordinator) -> None:
    def attack() -> None:
        with Http2(edge) as wire:
            for _ in range(100):
                assert wire.answer(wire.request("/AWS.ALB/healthcheck"))["grpc-status"] == UNIMPLEMENTED

    threads = [threading.Thread(target=attack) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        still_serves(edge)
    for thread in threads:
        thread.join()
    still_serves(edge)
    assert edge.stop() == 0, edge.log()


@pytest.mark.parametrize("headers", [
    [],
    [("content-type", "application/json")],
    [("content-type", "text/html"), ("te", "trailers")],
    [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "1n")],
    [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "x")],
    [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-encoding", "gzip")],
    [("content-type", "application/grpc"), ("te", "trailers"), ("authorization", "Bearer x"), ("authorization", "y")],
])
def test_headers_of_others(coordinator: Coordinator, headers: list[tuple[str, str]]) -> None:
    for method in ("POST", "GET", "PUT", "OPTIONS"):
        for path in ("/AWS.ALB/healthcheck", "/luthier.v1.StudyService/ListStudies"):
            with Http2(coordinator) as wire:
                wire.answer(wire.request(path, headers, method=method))
    still_serves(coordinator)
