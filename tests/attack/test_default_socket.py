"""Whoever names no server does not talk to another user's: the socket that a stranger put where the default is looked for,
or a listener of his on the default port, gets no token, and gives a worker no orders."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attack import BIN, ROOT, Coordinator, run, wait_for
from fake_coordinator import Fake

STRANGER = 60_061  # Of no account.
TOKEN = "lut_0123456789abcdef_" + "S" * 43
SECONDS = 10.0

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@pytest.fixture()
def place() -> Iterator[Path]:
    """A folder that every user reaches, and only this one writes to."""
    folder = Path(tempfile.mkdtemp(prefix="lut-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "LUTHIER_TOKEN": TOKEN, "XDG_STATE_HOME": "/nonexistent", **more}


def callers(place: Path) -> list[list[str]]:
    worker = ["luthier-worker", "--spool", str(place / "spool"), "--run-as", str(os.geteuid()), "--max-trials", "1"]
    return [["luthier", "study", "list"], ["luthier", "health"], ["luthier", "ask", "s"], worker]


def refused(argv: list[str], place: Path, *words: str) -> None:
    said = run(*argv, check=False, cwd=place, env=environment(), timeout=SECONDS)
    assert said.returncode == 2, (argv, said)
    for word in ("luthier-data", "--server unix:luthier-data/socket", "--server localhost:7790", *words):
        assert word in said.stderr, (argv, word, said.stderr)
    assert "S" * 10 not in said.stdout + said.stderr


@needs_root
def test_a_socket_of_another_user_is_left_aside_aloud(place: Path) -> None:
    data = place / "luthier-data"
    data.mkdir()
    os.chown(data, STRANGER, STRANGER)
    with Fake(f"unix:{data}/socket", user=STRANGER) as fake:
        for argv in callers(place):
            refused(argv, place, f"belongs to user {STRANGER}")
        data.chmod(0o700)
        for argv in callers(place):
            refused(argv, place)
        # A folder that is ours, with a socket that is not.
        os.chown(data, 0, 0)
        data.chmod(0o755)
        for argv in callers(place):
            refused(argv, place, f"belongs to user {STRANGER}")
        assert fake.seen == []
        # Named, it is taken.
        run("luthier", "study", "list", "--server", "unix:luthier-data/socket", check=False, cwd=place, env=environment())
        fake.wait_for_tokens()


def test_a_folder_that_others_write_to_is_left_aside_aloud(place: Path) -> None:
    data = place / "luthier-data"
    data.mkdir()
    with Fake(f"unix:{data}/socket") as fake:
        data.chmod(0o777)
        for argv in callers(place):
            refused(argv, place, "can be written to by everybody")
        data.chmod(0o700)
        place.chmod(0o777)  # Others may put another folder in its place.
        for argv in callers(place):
            refused(argv, place, "the current folder can be written to by everybody")
        assert fake.seen == []
        place.chmod(0o755)
        run("luthier", "study", "list", check=False, cwd=place, env=environment())
        assert set(fake.wait_for_tokens()) == {"Bearer " + TOKEN}


@needs_root
def test_a_link_of_another_user_leads_nowhere(place: Path) -> None:
    with Fake(f"unix:{place}/own", user=None) as fake:
        shared = place / "shared"
        shared.mkdir(mode=0o777)
        shared.chmod(0o1777)
        (place / "socket").symlink_to("own")
        (shared / "luthier-data").symlink_to("..")
        os.lchown(shared / "luthier-data", STRANGER, STRANGER)
        refused(["luthier", "study", "list"], shared, f"belongs to user {STRANGER}")
        os.lchown(shared / "luthier-data", 0, 0)
        run("luthier", "study", "list", check=False, cwd=shared, env=environment())
        fake.wait_for_tokens()


@needs_root
def test_an_ordinary_user_takes_his_own_and_roots_alone(place: Path) -> None:
    if not os.access(BIN, os.X_OK) or any(not p.stat().st_mode & 0o001 for p in BIN.resolve().parents):
        pytest.skip("other users do not reach the programs")
    who: dict[str, Any] = {"user": STRANGER, "group": STRANGER, "extra_groups": []}

    def says() -> subprocess.CompletedProcess[str]:
        return run("luthier", "study", "list", check=False, cwd=place, env=environment(), timeout=SECONDS, **who)

    data = place / "luthier-data"
    data.mkdir()
    with Fake(f"unix:{data}/socket") as fake:
        (data / "socket").chmod(0o777)
        says()  # Root's.
        fake.wait_for_tokens()
        os.chown(data / "socket", STRANGER + 1, STRANGER + 1)
        assert f"belongs to user {STRANGER + 1}, neither to user {STRANGER} nor to root" in says().stderr
    (data / "socket").unlink(missing_ok=True)
    os.chown(data, STRANGER, STRANGER)
    with Fake(f"unix:{data}/socket", user=STRANGER) as fake:
        says()
        fake.wait_for_tokens()


def test_databases_of_others_are_not_taken_unasked(place: Path) -> None:
    (place / "study.yaml").write_text("space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: y, goal: MINIMIZE}\n"
                                      "objective: {command: {argv: ['true']}}\n")
    for folder, argv, option in [
        ("luthier.db.d", ["luthier", "run", "study.yaml"], "--db luthier.db.d"),
        ("luthier-data", ["luthierd", "--listen", "127.0.0.1:0"], "--data-dir luthier-data"),
    ]:
        (place / folder).mkdir()
        (place / folder).chmod(0o777)
        said = run(*argv, check=False, cwd=place, timeout=SECONDS, stdin=subprocess.DEVNULL)
        assert said.returncode == 2 and "can be written to by everybody" in said.stderr and option in said.stderr, said
        assert list((place / folder).iterdir()) == []
        if os.geteuid() == 0:
            (place / folder).chmod(0o755)
            os.chown(place / folder, STRANGER, STRANGER)
            said = run(*argv, check=False, cwd=place, timeout=SECONDS, stdin=subprocess.DEVNULL)
            assert said.returncode == 2 and f"belongs to user {STRANGER}" in said.stderr, said


def test_python_joins_no_coordinator_of_others(place: Path) -> None:
    program = (f"import sys; sys.path.insert(0, {str(ROOT / 'client/python')!r})\nimport luthier\n"
               "try:\n    luthier.load('s')\nexcept luthier.Unavailable as error:\n    print(error)\n"
               "except luthier.LuthierError as error:\n    print('answered', error)\n")

    def says() -> str:
        return subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True, check=True,
                              env=environment(), timeout=60).stdout

    data = place / "luthier.db.d"
    data.mkdir()
    with Fake(f"unix:{data}/socket") as fake:
        data.chmod(0o777)
        assert "can be written to by everybody" in says()
        data.chmod(0o755)
        if os.geteuid() == 0:
            os.chown(data, STRANGER, STRANGER)
            assert f"belongs to user {STRANGER}" in says()
            os.chown(data, 0, 0)
        assert fake.seen == []
        assert "answered" in says()
        assert fake.wait_for_calls() and fake.tokens() == []  # A directory's coordinator gets none.


@needs_root
def test_the_folder_of_results_is_ours(place: Path) -> None:
    """Without a home, undelivered results are kept below /var/tmp, where anybody can be first."""
    shared = Path(f"/var/tmp/luthier-{STRANGER + 2}")
    if shared.exists() or any(not p.stat().st_mode & 0o001 for p in BIN.resolve().parents):
        pytest.skip(f"other users do not reach the programs, or there is {shared}")
    shared.mkdir()
    os.chown(shared, STRANGER, STRANGER)
    try:
        without = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_STATE_HOME")}
        said = run("luthier-worker", "--server", "localhost:1", check=False, cwd="/", env=without, timeout=SECONDS,
                   user=STRANGER + 2, group=STRANGER + 2, extra_groups=[])
        assert said.returncode == 2 and f"belongs to user {STRANGER}" in said.stderr and "--spool" in said.stderr, said
    finally:
        shared.rmdir()


def test_a_coordinator_of_ones_own_is_found_as_before(place: Path) -> None:
    with Coordinator(place) as made:
        made.kill()
        made.data = made.data.rename(place / "luthier-data")
        made.start()
        said = run("luthier", "study", "list", cwd=place)
        assert said.returncode == 0
        (place / "below").mkdir()
        (place / "below/luthier-data").symlink_to("../luthier-data")
        assert run("luthier", "study", "list", cwd=place / "below").returncode == 0


@pytest.fixture()
def own_network() -> Iterator[None]:
    """A loopback of this test's own, where the default port is free."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        os.close(before)
        pytest.skip(f"no network of its own: {os.strerror(ctypes.get_errno())}")
    try:
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up, running.
        yield
    finally:
        libc.setns(before, 0)
        os.close(before)


def refused_port(argv: list[str], place: Path, **options: Any) -> None:
    said = run(*argv, check=False, cwd=place, env=environment(), timeout=SECONDS, **options)
    assert said.returncode == 2, (argv, said)
    for word in (f"user {STRANGER} listens there", "not taken unasked", "--server localhost:7790"):
        assert word in said.stderr, (argv, word, said.stderr)
    assert "S" * 10 not in said.stdout + said.stderr


@needs_root
@pytest.mark.parametrize("address", ["127.0.0.1:7790", "0.0.0.0:7790", "[::1]:7790", "[::]:7790"])
def test_another_user_at_the_default_port_gets_nothing(place: Path, own_network: None, address: str) -> None:
    try:
        socket.create_server(("::1" if "[" in address else "127.0.0.1", 0),
                             family=socket.AF_INET6 if "[" in address else socket.AF_INET).close()
    except OSError:
        pytest.skip("no such network")
    with Fake(address, user=STRANGER) as fake:
        for argv in callers(place):
            refused_port(argv, place)
        assert fake.seen == []
        if address == "127.0.0.1:7790":  # Named, it is taken.
            run("luthier", "study", "list", "--server", "localhost:7790", check=False, cwd=place, env=environment())
            fake.wait_for_tokens()


@needs_root
def test_a_coordinator_of_ones_own_at_the_default_port_is_found(place: Path, own_network: None) -> None:
    with Fake("127.0.0.1:7790") as fake:
        run("luthier", "study", "list", check=False, cwd=place, env=environment(), timeout=SECONDS)
        assert set(fake.wait_for_tokens()) == {"Bearer " + TOKEN}


@needs_root
def test_who_comes_to_the_default_port_later_gets_nothing(place: Path, own_network: None) -> None:
    """A worker waits for its coordinator, before its start and while it is away: another user may be there first."""
    for away in (False, True):
        log = place / "worker.log"
        ours = Coordinator(place, "--auth", "off", listen="127.0.0.1:7790") if away else None
        with log.open("wb") as out:
            worker = subprocess.Popen([str(BIN / "luthier-worker"), *callers(place)[-1][1:], "--name", "w"], cwd=place,
                                      stderr=out, env=environment())
        try:
            if ours is not None:
                wait_for(lambda: "\nw " in run("luthier", "worker", "list", cwd=place).stdout, "the worker")
                ours.kill()
            else:
                wait_for(lambda: "nobody is seen to listen" in log.read_text(), "the worker, in vain")
            with Fake("127.0.0.1:7790", user=STRANGER) as fake:
                time.sleep(3.5)  # It tries at least once in a second.
                assert fake.seen == [] and worker.poll() is None, log.read_text()
            with Fake("127.0.0.1:7790") as back:
                assert set(back.wait_for_tokens()) == {"Bearer " + TOKEN}
        finally:
            worker.kill()
            worker.wait()
