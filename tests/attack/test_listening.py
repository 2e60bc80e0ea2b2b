"""Where the coordinator listens, who can take its place, who reads its files, and what happens to it without descriptors."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import grpc
import pytest
from attack import Coordinator, name_of, run, wait_for


def refused(folder: Path, *flags: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A start that must not come to anything."""
    result = run("luthierd", "--data-dir", folder / "data", *flags, check=False, env={**os.environ, **(environment or {})})
    assert result.returncode != 0 and "serving on" not in result.stdout, result
    assert result.returncode > 0, f"ended by signal {-result.returncode}: {result.stderr}"
    return result


@pytest.mark.parametrize("listen", ["127.0.0.2:0", "[::1]:0", "localhost:0"])
def test_one_address_of_many(tmp_path: Path, listen: str) -> None:
    """A check that dials another address than was bound would take the listener for deaf."""
    if listen.startswith("["):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("no IPv6 here")
    with Coordinator(tmp_path, listen=listen) as coordinator:
        coordinator.caller(coordinator.admin_token).call("StudyService/ListStudies")
        assert "listener" not in coordinator.log().lower(), coordinator.log()


@pytest.mark.skipif("LUTHIER_ATTACK_LONG" not in os.environ, reason="takes 40 s; LUTHIER_ATTACK_LONG=1 asks for it")
def test_one_address_of_many_for_longer_than_the_checks_patience(tmp_path: Path) -> None:
    with Coordinator(tmp_path, listen="127.0.0.2:0") as coordinator:
        end = time.monotonic() + 40
        while time.monotonic() < end:
            coordinator.assert_alive()
            time.sleep(0.5)
        coordinator.caller(coordinator.admin_token).call("StudyService/ListStudies")


@pytest.mark.parametrize("flags", [["--listen", "0.0.0.0:0"], ["--listen", "[::]:0"],
                                   ["--listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:0"]])
def test_plain_text_beyond_loopback_must_be_asked_for(tmp_path: Path, flags: list[str]) -> None:
    result = refused(tmp_path, *flags)
    assert "--accept-plaintext" in result.stderr and "plain text" in result.stderr, result.stderr
    assert not (tmp_path / "data/luthier.db").exists()


def test_nobody_else_takes_the_port_or_the_data(tmp_path: Path) -> None:
    with Coordinator(tmp_path) as coordinator:
        host, port = coordinator.host_and_port
        # A program of the same user that asks the kernel to share the port would get some of the calls.
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with socket.socket() as thief:
                thief.setsockopt(socket.SOL_SOCKET, option, 1)
                with pytest.raises(OSError):
                    thief.bind((host, port))
                    thief.listen()
        other = tmp_path / "other"
        other.mkdir()
        result = refused(other, "--listen", coordinator.address)
        assert "another program listens there" in result.stderr, result.stderr
        assert not (other / "data/luthier.db").exists(), "a database was made before the port was looked at"
        result = refused(tmp_path, "--listen", "127.0.0.1:0")
        assert str(tmp_path / "data") in result.stderr, result.stderr
        coordinator.caller(coordinator.admin_token).call("StudyService/ListStudies")


@pytest.mark.parametrize("kind", ["file", "folder", "link to a file", "link to nothing"])
def test_a_socket_takes_the_place_of_nothing_else(tmp_path: Path, kind: str) -> None:
    place, precious = tmp_path / "place", tmp_path / "precious"
    precious.write_text("years of work")
    if kind == "file":
        place.write_text("years of work")
    elif kind == "folder":
        place.mkdir()
    elif kind == "link to a file":
        place.symlink_to(precious)
    else:
        place.symlink_to(tmp_path / "nothing")
    refused(tmp_path, "--listen", f"unix:{place}")
    assert precious.read_text() == "years of work"
    assert place.read_text() == "years of work" if kind in ("file", "link to a file") else True
    assert kind != "folder" or place.is_dir()
    assert kind != "link to nothing" or place.is_symlink()


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    """Whatever the folder allows, and whatever the umask."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        with Coordinator(tmp_path) as coordinator:
            coordinator.caller(coordinator.admin_token).create_study("s")
            run("luthier", "admin", "backup", "--db", data, "--out", tmp_path / "backup")
            open_to_others = [f"{path} {stat.filemode(path.lstat().st_mode)}"
                              for path in [*data.rglob("*"), tmp_path / "backup", *(tmp_path / "backup").rglob("*")]
                              if path.lstat().st_mode & 0o077]
            assert not open_to_others, open_to_others
    finally:
        os.umask(before)


def test_out_of_descriptors(tmp_path: Path) -> None:
    """Silent and talking connections beyond the limit: whoever calls on the folder's socket, or comes when they are gone, is served."""
    with Coordinator(tmp_path, prefix=("prlimit", "--nofile=400:400")) as coordinator:
        held: list[socket.socket] = []
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
        for i in range(500):
            try:
                held.append(socket.create_connection(coordinator.host_and_port, timeout=5))
                if i % 2:
                    held[-1].sendall(preface)
            except OSError:
                pass
        coordinator.assert_alive()
        for sock in held:
            sock.close()

        def served() -> bool:
            try:
                coordinator.caller(coordinator.admin_token).call("StudyService/ListStudies", timeout=2)
                return True
            except grpc.RpcError:
                return False

        begin = time.monotonic()
        wait_for(served, "a call after the flood", 20)
        assert time.monotonic() - begin < 10
        coordinator.caller(coordinator.admin_token).create_study("after")


def test_half_requests_for_metrics_block_nobody(tmp_path: Path) -> None:
    with Coordinator(tmp_path, "--metrics-listen", "127.0.0.1:0") as coordinator:
        port = int(re.search(r"http://127.0.0.1:(\d+)/metrics", coordinator.log())[1])
        halves = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(100)]
        for half in halves:
            half.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
        for request, status in ((b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", b"200"), (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"404"),
                                (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 60_000 + b"\r\n\r\n", b"4")):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as good:
                answer = b""
                try:
                    good.sendall(request)
                    answer = good.recv(100)
                except ConnectionError:
                    assert status == b"4", "a good request was cut off"
                assert not answer or answer.split(b" ")[1].startswith(status), answer
        for half in halves:
            half.close()


def test_those_who_wait_are_told_that_it_drains(coordinator: Coordinator) -> None:
    from luthier.v1 import errors_pb2

    caller = coordinator.caller(coordinator.admin_token)
    caller.create_study("s", max_trials=1)
    caller.suggest("s")
    asks = [caller.future("WorkerService/Suggest", study=name_of("s"), worker=f"w{i}", request_id=f"r{i}") for i in range(5)]
    watch = caller.stream("StudyService/WatchStudy", name=name_of("s"))
    next(iter(watch))
    time.sleep(0.3)  # Until the asks wait.
    begin = time.monotonic()
    coordinator.process.send_signal(signal.SIGTERM)
    for ask in asks:
        error = ask.exception(20)
        assert isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.UNAVAILABLE, error
        detail = errors_pb2.ErrorDetail()
        detail.ParseFromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
        assert detail.reason == "DRAINING" and detail.HasField("retry_delay"), detail
    assert coordinator.process.wait(20) == 0
    assert time.monotonic() - begin < 8


def test_tokens_come_from_private_files_and_never_from_arguments(coordinator: Coordinator, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(coordinator.admin_token)
    for mode in (0o644, 0o640, 0o604, 0o666):
        file.chmod(mode)
        result = run("luthier", "study", "list", "--server", coordinator.address, "--token-file", file, check=False)
        assert result.returncode == 2 and "chmod 600" in result.stderr, result
        assert coordinator.admin_token not in result.stderr
    file.chmod(0o600)
    run("luthier", "study", "list", "--server", coordinator.address, "--token-file", file)
    for program in ("luthier", "luthier-worker"):
        verb = ["study", "list"] if program == "luthier" else []
        result = run(program, *verb, "--token", coordinator.admin_token, check=False)
        assert result.returncode == 2, result
        options = run(program, "--help").stdout
        assert "--token-file" in options and not re.search(r"--token\b(?!-)", options)
