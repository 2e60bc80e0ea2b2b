"""Several addresses of one coordinator, and studies that were deleted."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import luthier
from luthier import _client, _security, aio
from luthier._server import Place, Tried, program


def closed_port() -> int:
    """Returns a port at which nobody listens: it stays bound, so that nobody else gets it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


class Coordinator:
    """A coordinator at a port of loopback, whose directory another one may take over."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [program("luthierd"), "--data-dir", str(directory), "--listen", "127.0.0.1:0", "--auth", "off"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip().rsplit(" ", 1)[-1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture()
def coordinators(tmp_path: Path) -> Iterator[Any]:
    """Starts coordinators of one directory, one after the other."""
    started: list[Coordinator] = []

    def start() -> Coordinator:
        started.append(Coordinator(tmp_path / "db"))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.mark.parametrize("server, wanted", [
    ("a:1", ["a:1"]), ("a:1,[::1]:2,dns:///c:3", ["a:1", "[::1]:2", "dns:///c:3"]),
    ("unix:/a,b:1/s", ["unix:/a,b:1/s"]), ("a:1,unix:/a,b/s", ["a:1", "unix:/a,b/s"]),
])  # fmt: skip
def test_addresses_are_split_at_commas(server: str, wanted: list[str]) -> None:
    assert _security.addresses(server) == wanted
    assert _security.check_address(server) == server


@pytest.mark.parametrize("server, words", [
    ("a:1,", "has an empty address"), (",a:1", "has an empty address"), ("a:1,b", "no port"), ("dns:///b", "no port"),
    ("dns://8.8.8.8/b:1", "leave out the scheme"), (",".join(["a:1"] * 17), "more than 16 addresses"),
])  # fmt: skip
def test_wrong_addresses_are_refused(server: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        luthier.load("s", server=server)


def test_a_token_goes_to_none_of_several_in_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUTHIER_TOKEN", "lut_0123456789abcdef_" + "S" * 43)
    with pytest.raises(ValueError, match="server='db2.example:1' is another machine"):
        luthier.load("s", server="dns:///localhost:1,db2.example:1")


def test_an_error_names_each_address_once() -> None:
    tried = Tried(Place("a:1,a:1", None))
    failure = luthier.Unavailable("refused", reason="", code="UNAVAILABLE")
    assert tried.another("a:1", failure)
    assert not tried.another("a:1", failure)
    assert str(tried.failure(failure)) == "no coordinator answers at any of 2 addresses: a:1: refused; a:1: refused"


def test_a_dead_first_address_costs_a_second_at_most(coordinators: Any, name: str) -> None:
    there = coordinators()
    server = f"127.0.0.1:{closed_port()},{there.address}"
    begin = time.monotonic()
    study = luthier.study(name, {"x": (0.0, 1.0)}, server=server)
    assert time.monotonic() - begin < 5
    trial = study.ask()
    study.tell(trial, 1.0)
    assert luthier.load(name, server=there.address).best_value == 1.0

    async def also() -> float:
        loaded = await aio.load(name, server=server)
        asked = await loaded.ask()
        await loaded.tell(asked, 0.5)
        return float(loaded.sync.best_value)

    assert asyncio.run(also()) == 0.5
    subprocess.run([program("luthier"), "study", "get", name, "--server", server], check=True, stdout=subprocess.DEVNULL)


def test_one_that_dies_later_is_left_for_the_next(coordinators: Any, name: str) -> None:
    first = coordinators()
    port = closed_port()
    study = luthier.study(name, {"x": (0.0, 1.0)}, server=f"{first.address},127.0.0.1:{port}")
    trial = study.ask()
    first.kill()
    second = coordinators()
    relay = Relay(port, second.address)
    try:
        study.tell(trial, 2.0)
        assert study.best_value == 2.0
    finally:
        relay.close()


class Relay:
    """Hands connections at a port on to another one, as a proxy does."""

    def __init__(self, port: int, target: str) -> None:
        code = (
            "import asyncio, sys\n"
            "async def copy(a, b):\n"
            "    try:\n"
            "        while data := await a.read(65536):\n"
            "            b.write(data); await b.drain()\n"
            "    finally:\n"
            "        b.close()\n"
            "async def serve(reader, writer):\n"
            "    host, port = sys.argv[2].rsplit(':', 1)\n"
            "    r, w = await asyncio.open_connection(host, int(port))\n"
            "    await asyncio.gather(copy(reader, w), copy(r, writer), return_exceptions=True)\n"
            "async def main():\n"
            "    server = await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1]))\n"
            "    print('ready', flush=True)\n"
            "    await server.serve_forever()\n"
            "asyncio.run(main())\n"
        )
        python = os.environ.get("LUTHIER_PYTHON", "python3")
        self.process = subprocess.Popen([python, "-c", code, str(port), target], stdout=subprocess.PIPE)
        assert self.process.stdout is not None and self.process.stdout.readline()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def test_a_deleted_study_comes_back(session_db: str, name: str) -> None:
    study = luthier.study(name, {"x": (0.0, 1.0)}, db=session_db)
    study.tell(study.ask(), 1.0)
    assert study.owner == ""  # The socket asks for no token.
    study.delete()
    with pytest.raises(luthier.NotFound):
        luthier.load(name, db=session_db)
    assert name in [one.name for one in luthier.studies(deleted=True, db=session_db)]
    assert luthier.undelete(name, db=session_db).best_value == 1.0
    study = luthier.load(name, db=session_db)
    study.delete()
    luthier.study(name, {"x": (0.0, 2.0)}, db=session_db)
    with pytest.raises(luthier.StudyExists, match="--as NAME"):
        luthier.undelete(name, db=session_db)
    assert asyncio.run(aio.undelete(name, name + "-old", db=session_db)).sync.best_value == 1.0
    with pytest.raises(luthier.NotFound, match="7 days"):
        luthier.undelete(name + "-none", db=session_db)
    assert _client.connect(db=session_db).several is False
