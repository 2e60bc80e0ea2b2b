"""What strangers do with many requests, or large ones: fourteen kinds, beside workers who must not notice, with and without a token.
bench/service/hostile.py sends 10,000 of each and measures; this is the same with a few, and LUTHIER_ATTACK_COUNT of them before a
release."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from attack import ROOT, Coordinator, messages_of

sys.path.insert(0, str(ROOT / "bench/service"))
import hostile  # noqa: E402

COUNT = int(os.environ.get("LUTHIER_ATTACK_COUNT", "20"))
# A sanitizer keeps what is freed, and shadows it.
LIMIT_MIB = 512 if "LUTHIER_ATTACK_SANITIZED" not in os.environ else 2048
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


class Others:
    """Workers who ask, report and complete all the while."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.failed: list[str] = []
        self.slowest = 0.0
        self.calls = 0
        self.ended = threading.Event()
        self.coordinator = coordinator
        coordinator.caller(coordinator.admin_token).create_study("good", max_trials=1_000_000)
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self) -> None:
        caller = self.coordinator.caller(self.coordinator.admin_token)
        while not self.ended.is_set():
            begin = time.monotonic()
            try:
                for lease in caller.suggest("good"):
                    caller.complete(lease, 0.5)
            except grpc.RpcError as error:
                self.failed.append(f"{error.code().name} {error.details()}")
            self.slowest = max(self.slowest, time.monotonic() - begin)
            self.calls += 1
            self.ended.wait(0.01)

    def end(self) -> None:
        self.ended.set()
        self.thread.join()


class Edge:
    """What hostile.Attack attacks."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator, self.address = coordinator, coordinator.address
        self.port = coordinator.host_and_port[1]
        self.metrics_port = int(re.search(r"http://127.0.0.1:(\d+)/metrics", coordinator.log())[1])

    def alive(self) -> bool:
        return self.coordinator.alive()

    def connect(self, port: int | None = None) -> Any:
        return hostile.connect(port or self.port)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory, messages: None) -> Iterator[tuple[Coordinator, Others]]:
    with Coordinator(tmp_path_factory.mktemp("floods"), "--metrics-listen", "127.0.0.1:0", "--memory-limit", f"{LIMIT_MIB}M") as coordinator:
        others = Others(coordinator)
        try:
            yield coordinator, others
        finally:
            others.end()


@pytest.mark.parametrize("who", ["with a token", "without"])
@pytest.mark.parametrize("kind", hostile.KINDS)
def test_a_flood(attacked: tuple[Coordinator, Others], kind: str, who: str) -> None:
    coordinator, others = attacked
    modules = {f"{name}_service_pb2": messages_of(f"{name.title()}Service") for name in ("study", "worker")}
    others.failed, others.slowest, before = [], 0.0, others.calls
    attacker = hostile.Attack(Edge(coordinator), modules, coordinator.admin_token if who == "with a token" else None)
    try:
        getattr(attacker, kind)(COUNT)
    finally:
        attacker.close()
    deadline = time.monotonic() + 10
    while others.calls == before and time.monotonic() < deadline:
        time.sleep(0.01)
    coordinator.assert_alive()
    assert others.calls > before and not others.failed, others.failed[:3]
    assert others.slowest < 3.0, f"others waited {others.slowest:.2f} s"
    assert coordinator.resident_bytes() < LIMIT_MIB << 20, f"{coordinator.resident_bytes() >> 20} MiB"


@pytest.mark.skipif(COUNT < 1000, reason="three checks of the listener take 45 s; before a release")
def test_a_flood_of_connections_does_not_end_it(tmp_path: Path) -> None:
    with Coordinator(tmp_path, "--memory-limit", "256M") as coordinator:
        end = time.monotonic() + 60
        flood = [threading.Thread(target=replace_connections, args=(coordinator.host_and_port, end)) for _ in range(4)]
        for thread in flood:
            thread.start()
        for thread in flood:
            thread.join()
        coordinator.assert_alive()
        coordinator.caller(coordinator.admin_token).create_study("after", max_trials=1)


def replace_connections(address: tuple[str, int], end: float) -> None:
    """Connects and says the preface of HTTP/2 until `end`, and keeps the newest 4,000 connections."""
    held: deque[socket.socket] = deque()
    while time.monotonic() < end:
        try:
            held.append(socket.create_connection(address, timeout=2))
            held[-1].sendall(PREFACE)
        except OSError:
            time.sleep(0.01)
        if len(held) > 4000:
            held.popleft().close()
    for connection in held:
        connection.close()
