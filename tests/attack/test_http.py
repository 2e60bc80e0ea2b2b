"""What strangers send to the page's port: requests that mean two things, floods, halves, a reader that does not read, other names of the
machine, pages of other origins, ways out of the folder; beside them somebody who calls as usual."""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attack import Coordinator, wait_for

CALL = "/luthier.v1.StudyService/ListStudies"
SPEC = {"space": [{"name": "x", "float": {"min": 0, "max": 1}}], "metric": {"name": "loss", "goal": "MINIMIZE"}, "algorithm": {"random": {}}}


class Page:
    """A coordinator with a page."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.port = int(re.search(r"url=http://127.0.0.1:(\d+)", coordinator.log())[1])
        self.token = coordinator.admin_token

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def head(self, path: str = CALL, length: int | str = 2, **fields: str) -> bytes:
        known = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json", "Authorization": f"Bearer {self.token}",
                 "Content-Length": str(length)} | {name.replace("_", "-"): text for name, text in fields.items()}
        return (f"POST {path} HTTP/1.1\r\n" + "".join(f"{n}: {t}\r\n" for n, t in known.items() if t != "") + "\r\n").encode("latin-1")

    def answers(self, data: bytes, more: bool = False) -> bytes:
        """Sends bytes and reads to the end. Without `more` it says that no more come, which ends calls under way."""
        with self.connect() as s:
            try:
                s.sendall(data)
                if not more:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # It was refused before its end.
            return read_all(s)

    def call(self, method: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", f"/luthier.v1.{method}", json.dumps(body or {}), {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        parsed = json.loads(answer.read())
        connection.close()
        return answer.status, parsed

    def assert_serves(self) -> None:
        begin = time.monotonic()
        assert self.call("StudyService/ListStudies")[0] == 200
        assert time.monotonic() - begin < 5
        self.coordinator.assert_alive()


def read_all(s: socket.socket) -> bytes:
    got = b""
    try:
        while some := s.recv(65536):
            got += some
    except OSError:
        pass
    return got


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with Coordinator(tmp_path_factory.mktemp("http"), "--http-listen", "127.0.0.1:0") as coordinator:
        wait_for(lambda: "msg=http " in coordinator.log() or "url=http" in coordinator.log(), "the page")
        yield Page(coordinator)
        assert coordinator.stop() == 0


def test_what_two_readers_could_read_differently_is_refused_and_ends_the_connection(page: Page) -> None:
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for data in (
        page.head()[:-2] + b"Content-Length: 44\r\n\r\n{}" + smuggled,
        page.head(length="2, 44") + b"{}" + smuggled,
        page.head(length=2, Transfer_Encoding="chunked") + b"0\r\n\r\n" + smuggled,
        page.head(length="", Transfer_Encoding="chunked, identity") + b"0\r\n\r\n" + smuggled,
        page.head(length="", Transfer_Encoding="xchunked") + b"2\r\n{}\r\n0\r\n\r\n" + smuggled,
        page.head(length="+2") + b"{}" + smuggled,
        page.head(length="0x2") + b"{}" + smuggled,
        page.head(Host=f"127.0.0.1:{page.port}\r\nHost: localhost") + b"{}" + smuggled,
    ):
        answer = page.answers(data)
        assert answer.count(b"HTTP/1.1 ") <= 1, answer
        assert status(answer) in (0, 400, 411, 501), (data, answer)
    page.assert_serves()


def test_only_own_names_and_own_pages_are_answered(page: Page) -> None:
    for fields, expected in (
        ({}, 200), ({"Host": "localhost"}, 200), ({"Origin": f"http://127.0.0.1:{page.port}"}, 200), ({"Host": "rebound.example"}, 403),
        ({"Host": f"rebound.example:{page.port}"}, 403), ({"Host": "127.0.0.1.rebound.example"}, 403), ({"Host": "127.0.0.1@evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Origin": f"http://127.0.0.1:{page.port}.evil.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403), ({"Sec_Fetch_Site": "same-site"}, 403), ({"Content_Type": "text/plain"}, 415),
        ({"Authorization": ""}, 401), ({"Authorization": f"Basic {page.token}"}, 401), ({"Authorization": f"Bearer {page.token}\r\nAuthorization: Bearer x"}, 400),
    ):  # fmt: skip
        fields = {"Connection": "close"} | fields
        if "Content_Type" in fields:
            fields["Content-Type"] = fields.pop("Content_Type")
        answer = page.answers(page.head(**fields) + b"{}", more=True)
        assert status(answer) == expected, (fields, answer[:200])
        assert b"access-control-allow" not in answer.lower()
    preflight = page.answers(f"OPTIONS {CALL} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n".encode())
    assert status(preflight) == 403 and b"access-control" not in preflight.lower()


def test_no_path_leads_out_of_the_page(page: Page) -> None:
    secret = (page.coordinator.data / "admin.token").read_text().strip().encode()
    for path in ("/../admin.token", "/..%2f..%2fetc/passwd", "/%2e%2e/admin.token", "//etc/passwd", "/page.js/../../admin.token", "/page.js%00.html",
                 "/\\..\\admin.token", "/admin.token", "http://127.0.0.1/etc/passwd", "*", "/page.js?../admin.token", "/" + "a" * 15_000):
        answer = page.answers(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert status(answer) in (200, 400, 404, 431), path
        assert secret not in answer and b"root:" not in answer
        assert status(answer) != 200 or path.startswith("/page.js?"), path


def test_a_body_of_a_hundred_megabytes_is_refused_unread(page: Page) -> None:
    before = page.coordinator.resident_bytes()
    with page.connect() as s:
        s.sendall(page.head(length=100 << 20))
        sent = 0
        try:
            while sent < 100 << 20:
                sent += s.send(b" " * (1 << 20))
        except OSError:
            pass
        assert sent < 40 << 20, "somebody reads it all"
    endless = page.answers(page.head(length="", Transfer_Encoding="chunked") + (b"100000\r\n" + b" " * (1 << 20) + b"\r\n") * 16)
    assert status(endless) in (0, 413)
    page.assert_serves()
    assert page.coordinator.resident_bytes() - before < 64 << 20


def test_two_hundred_connections_and_as_many_halves_delay_nobody(page: Page) -> None:
    idle = [page.connect() for _ in range(200)]
    halves = [page.connect() for _ in range(200)]
    for number, half in enumerate(halves):
        half.sendall(page.head(length=100)[: 20 + number])
    for s in idle[:50]:
        s.sendall(page.head() + b"{}")
    page.assert_serves()
    for s in idle[:50]:
        assert status(s.recv(100)) == 200
    for s in idle + halves:
        s.close()
    page.assert_serves()


def test_a_reader_that_does_not_read_keeps_nobody_waiting(page: Page) -> None:
    assert page.call("StudyService/CreateStudy", {"studyId": "slow", "spec": SPEC | {"budget": {"maxTrials": "2000"}}})[0] == 200
    for i in range(3):
        trials = [{"parameters": {"x": random.random()}, "attributes": {"note": "n" * 900}} for _ in range(600)]
        assert page.call("StudyService/EnqueueTrials", {"parent": "projects/default/studies/slow", "trials": trials, "requestId": f"many-{i}"})[0] == 200
    body = json.dumps({"parent": "projects/default/studies/slow", "pageSize": 1000}).encode()
    before = page.coordinator.resident_bytes()
    slow = []
    for _ in range(20):
        s = page.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(page.head("/luthier.v1.StudyService/ListTrials", len(body)) + body)
        slow.append(s)
    page.assert_serves()
    assert page.coordinator.resident_bytes() - before < 256 << 20
    for s in slow:
        s.close()


def test_hostile_names_and_texts_come_back_as_texts(page: Page) -> None:
    hostile = "<script>alert(1)</script>\u202e\U0001f3bb"
    assert page.call("StudyService/CreateStudy", {"studyId": "hostile", "spec": SPEC | {"displayName": hostile}})[0] == 200
    code, answer = page.call("StudyService/GetStudy", {"name": "projects/default/studies/hostile"})
    assert code == 200 and answer["spec"]["displayName"] == hostile
    code, answer = page.call("StudyService/CreateStudy", {"studyId": "long", "spec": SPEC | {"displayName": "x" * 100_000}})
    assert code == 400 and len(json.dumps(answer)) < 10_000
    code, answer = page.call("StudyService/CheckStudyFile", {"text": "[" * 100_000})
    assert code == 400 and len(json.dumps(answer)) < 100_000
    code, answer = page.call("StudyService/CheckStudyFile", {"text": "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(f"{c}: &{c} [*{p}, *{p}, *{p}, *{p}, *{p}, *{p}, *{p}, *{p}]\n" for p, c in zip("abcdefgh", "bcdefghi"))})
    assert code == 400
    page.assert_serves()


def test_random_bytes_and_broken_requests_end_no_coordinator(page: Page) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    good = page.head() + b"{}"
    for _ in range(400):
        data = bytearray(good)
        for _ in range(draw.randrange(1, 12)):
            at = draw.randrange(len(data))
            data[at : at + draw.randrange(3)] = bytes(draw.randrange(256) for _ in range(draw.randrange(4)))
        with page.connect() as s:
            try:
                s.sendall(bytes(data))
            except OSError:
                pass
    page.assert_serves()
